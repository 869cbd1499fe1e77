#!/bin/sh
# gpu.sh [--rehearse] [--folder BUILD] [--results FOLDER] [--limit SECONDS] [PART...]
#
# Tests and measures the CUDA backend on the GPU of this machine; run it from the top of the sources. BUILD holds the
# programs (tests/bench/gpu/pack.sh makes it where nvcc is: build/gpu). Parts, and their order when none is named, the
# most important first: tests ceilings models attention peers delta state_space experts whole_run probes. The whole set of tests must
# pass before anything is measured; the ceilings (P0) are measured in every run, since results mean nothing without. What
# is left when the limit (580 s) comes is listed as not run: ask for it by name in another call. Writes
# FOLDER/DATE-DEVICE-TIME.json (tests/bench/results) and prints a table.
#
# --rehearse: the same with the emulator's programs at toy sizes, BUILD being a build folder with tests; no measurement.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rehearse=
build=build/gpu
results=tests/bench/results
limit=580
parts=
while [ $# -gt 0 ]; do
  case $1 in
    --rehearse) rehearse=yes ;;
    --folder) build=$2; shift ;;
    --results) results=$2; shift ;;
    --limit) limit=$2; shift ;;
    tests | ceilings | models | attention | peers | delta | state_space | experts | whole_run | probes) parts="$parts $1" ;;
    *) sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$parts" ] || parts='tests ceilings models attention peers delta state_space experts whole_run probes'
case " $parts " in
  *' ceilings '*) ;;
  ' tests ' | ' probes ' | ' tests probes ') ;; # nothing is compared with anything
  *' tests '*) parts="tests ceilings ${parts#*tests}" ;;
  *) parts="ceilings $parts" ;;
esac

start=$(date +%s)
left() { echo $((limit - $(date +%s) + start)); }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lines=$scratch/lines
: >"$lines"
python=${PYTHON:-python3}

if [ -n "$rehearse" ]; then
  device=emulator driver=none
  bench=$build/tests/bench/gpu_bench_emulated writer=$build/tests/bench/write_random_model kvcal=$build/tests/emulated/kvcal
  parity=$build/tests/parity/test_parity_cuda arch=$build/tests/arch/test_arch_cuda
  toy='--toy --rounds 1' peer_options='--toy --device cpu' shapes='toy-dense toy-hybrid-moe toy-latent-moe' prompts='4 70'
  filter='--gtest_filter=RowOps*:Rope*'
else
  # The program's own libraries lie beside it; CUDA's come from the system, else from torch.
  libraries=$build/lib
  ldconfig -p | grep -q 'libcudnn\.so\.9' && ldconfig -p | grep -q 'libcublasLt\.so\.13' ||
    libraries=$libraries:$("$python" -c 'import glob, importlib.util as u
print(":".join(g for p in u.find_spec("nvidia").submodule_search_locations for g in glob.glob(p + "/*/lib")))')
  export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  device=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
  bench=$build/bin/gpu_bench writer=$build/bin/write_random_model kvcal=$build/bin/kvcal
  parity=$build/bin/test_parity_gpu arch=$build/bin/test_arch_gpu
  toy='' peer_options='' prompts='128 2048' filter=
  shapes='qwen3-8b-4-layers llama-70b-2-layers qwen3.5-35b-a3b-4-layers glm-4.7-flash-3-layers deepseek-v3-2-layers'
fi

# line ID NAME WHY: what was not run. passed ID NAME: a set of tests.
line() { printf '{"id":"%s","name":"%s","not_run":"%s"}\n' "$1" "$2" "$3" >>"$lines"; }
passed() { printf '{"id":"%s","name":"%s","unit":"passed","values":[1],"median":1,"least":1,"most":1}\n' "$1" "$2" >>"$lines"; }
failed() {
  echo "gpu.sh: $1" >&2
  exit 1
}

# measure NAME COMMAND...: its standard output are lines; a part that fails, or has no time left, is not run.
measure() {
  name=$1
  shift
  seconds=$(left)
  if [ "$seconds" -lt 5 ]; then
    line part "$name" 'no time was left'
    return
  fi
  status=0
  timeout "$seconds" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  grep '^{' "$scratch/out" >>"$lines" || true
  cat "$scratch/err" >&2
  [ "$status" -eq 0 ] || line part "$name" "ended with $status: $(tail -n 1 "$scratch/err" | tr -d '"\\' | cut -c1-200)"
}

# sanitize TOOL NAME COMMAND...
sanitize() {
  tool=$1 name="$1, $2"
  shift 2
  if ! command -v compute-sanitizer >/dev/null || [ -n "$rehearse" ]; then
    line T "$name" "$([ -n "$rehearse" ] && echo a rehearsal || echo no compute-sanitizer)"
    return
  fi
  status=0
  seconds=$(left)
  # Beside measurements it may not take all the time; 'gpu.sh tests' gives it all there is.
  [ "$parts" = ' tests' ] || [ "$seconds" -lt 100 ] || seconds=100
  timeout "$seconds" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$scratch/sanitizer" 2>&1 || status=$?
  if grep -q 'not supported\|Unable to find' "$scratch/sanitizer"; then
    line T "$name" 'this machine refuses compute-sanitizer'
  elif [ "$status" -eq 124 ]; then
    line T "$name" 'no time was left'
  elif [ "$status" -ne 0 ]; then
    tail -n 60 "$scratch/sanitizer" >&2
    failed "$name found errors"
  else
    passed T "$name"
  fi
}

tests() {
  for program in "$parity" "$arch"; do
    # shellcheck disable=SC2086  # perhaps nothing
    timeout "$(left)" "$program" --gtest_brief=1 $filter >&2 || failed "$program failed"
    passed T "$(basename "$program")"
    [ -z "$rehearse" ] || break # the other's emulated cases are tests of their own
  done
  sanitize memcheck parity "$parity" --gtest_brief=1
  sanitize racecheck 'small kernels' "$parity" --gtest_brief=1 --gtest_filter='*Attention*:*ConvParity*:*DeltaParity*:*MoeParity*:*RowOps*:Statistics*'
  sanitize memcheck architectures "$arch" --gtest_brief=1
}

# write_model SHAPE: once.
write_model() {
  [ -d "$scratch/$1" ] && return
  # shellcheck disable=SC2086  # two numbers
  "$writer" "$1" "$scratch/$1" $prompts || failed "writing $1 failed"
}

peers() {
  if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    line P4 'torch attention' "no torch and transformers in $python"
    line P13a 'lean loop' "no torch and transformers in $python"
    return
  fi
  model_options=
  for shape in $shapes; do
    write_model "$shape"
    model_options="$model_options --model $scratch/$shape"
  done
  # shellcheck disable=SC2086  # lists of options
  measure 'torch attention' "$python" "$here/gpu/peers.py" attention $peer_options
  # shellcheck disable=SC2086
  measure 'transformers loops' "$python" "$here/gpu/peers.py" loops $peer_options --bench "$bench" $model_options
}

# shellcheck disable=SC2086  # lists of options
for part in $parts; do
  echo "gpu.sh: $part, $(left) s left" >&2
  case $part in
    tests) tests ;;
    ceilings) measure ceilings "$bench" ceilings $toy --disk "$scratch" ;;
    models)
      for shape in $shapes; do
        write_model "$shape"
        measure "models, $shape" "$bench" models $toy --model "$scratch/$shape"
      done
      ;;
    attention | delta | state_space | experts) measure "$part" "$bench" "$part" $toy ;;
    peers) peers ;;
    whole_run)
      write_model "${shapes%% *}"
      first=$scratch/${shapes%% *}
      if [ -x "$kvcal" ]; then
        measure whole_run "$bench" whole_run $toy --model "$first" --command "$kvcal calibrate $first --prompts $first/prompts.jsonl \
--passes 1 --warmup-passes 0 --no-sanity --max-length 2048 --device cuda --quiet --force -o $scratch/scales.json"
      else
        line P2 'whole run' "no program $kvcal"
      fi
      ;;
    probes)
      [ -z "$rehearse" ] || { line probes 'all probes' 'a rehearsal'; continue; }
      for probe in "$build"/bin/probes/*; do measure "probe $(basename "$probe")" "$probe"; done
      ;;
  esac
done

mkdir -p "$results"
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || cat "$build/commit" 2>/dev/null || echo unknown)
name=$(printf %s "$device" | tr 'A-Z /' 'a-z--')
case " $parts " in
  *' ceilings '*)
    "$bench" collect "$results/$(date -u +%Y-%m-%d)-$name-$(date -u +%H%M%S).json" "device=$device" "driver=$driver" \
      "date=$(date -u +%Y-%m-%d)" "commit=$commit" <"$lines"
    ;;
  *) cat "$lines" ;;
esac
