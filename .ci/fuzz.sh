#!/bin/sh
# fuzz.sh SECONDS [TARGET...]: runs each fuzz program of build/asan (or those named, without "fuzz_") for SECONDS, one on
# each processor. What it finds stays in build/asan/fuzz/findings/<target>/, what it learns in
# build/asan/fuzz/learned/<target>/ for the next run; an input worth keeping belongs into tests/fuzz/corpus/<target>/, where
# every 'make test' replays it.
set -eu
cd "$(dirname "$0")/.."
seconds=$1
shift
[ $# -gt 0 ] || set -- $(for program in build/asan/tests/fuzz/fuzz_*; do
  [ ! -x "$program" ] || [ -d "$program" ] || basename "$program" | sed s/^fuzz_//
done)
[ $# -gt 0 ] || { echo 'fuzz: no program in build/asan/tests/fuzz' >&2; exit 2; }
if [ $# -gt 1 ]; then
  printf '%s\n' "$@" | xargs -P "$(sh .ci/jobs.sh)" -n 1 sh .ci/fuzz.sh "$seconds"
  exit
fi
target=$1 learned=build/asan/fuzz/learned/$1 findings=build/asan/fuzz/findings/$1
mkdir -p "$learned" "$findings"
corpora=
for folder in "$target" $(awk -v t="$target" '$1 == t { print $2 }' tests/fuzz/shared.txt); do
  [ ! -d tests/fuzz/corpus/"$folder" ] || corpora="$corpora tests/fuzz/corpus/$folder"
done
dictionary=
[ ! -f tests/fuzz/dict/"$target".dict ] || dictionary=-dict=tests/fuzz/dict/$target.dict
# Limits: an input of at most 16 KiB may neither take more than 15 s, on a machine that has other work, nor 1 GiB, sanitizers included.
if build/asan/tests/fuzz/fuzz_"$target" $dictionary -max_total_time="$seconds" -max_len=16384 -timeout=15 \
  -rss_limit_mb=1024 -artifact_prefix="$findings/" -print_final_stats=1 "$learned" $corpora \
  >"$findings/log" 2>&1; then
  echo "fuzz $target: $(awk '/number_of_executed_units/ { print $2 }' "$findings/log") executions, nothing found"
else
  tail -n 40 "$findings/log"
  found=$(ls -t "$findings" | grep -v '^log$' | head -n 1)
  echo "fuzz $target: FAILED${found:+ on $findings/$found, which base64 -d makes of:}"
  [ -z "$found" ] || base64 "$findings/$found"
  exit 1
fi
