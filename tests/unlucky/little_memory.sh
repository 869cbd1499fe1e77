# Less address space than the program wants: mapping gives way to reading, and what does not fit is one line and exit
# code 2, whatever it was that did not fit: a tensor, a thread, a string.
. "$(dirname "$0")/common.sh"

if "$kvcal" --version | grep -qi sanitize; then skip "sanitizers reserve address space of their own"; fi

prompts=$source/datasets/demo/prompts.jsonl
run="$kvcal calibrate $demo --prompts $prompts --threads 2 -q"
$run -o reference.json || complain "the reference run"

done_at=
for mib in 20 40 50 56 62 68 74 80 86 92 98 104 110 116 122 128 134 140 146 152 160 200 400; do
  rm -f s.json
  sh -c "ulimit -v $((mib * 1024)); exec $run -o s.json" >out.txt 2>err.txt
  code=$?
  case $code in
    0)
      cmp -s s.json reference.json || complain "$mib MiB: another result"
      done_at=${done_at:-$mib}
      ;;
    2) one_line err.txt "$mib MiB" ;;
    # Not even the shared libraries fit: the system's loader ends it.
    127) grep -q 'error while loading shared libraries' err.txt || complain "$mib MiB: $(cat err.txt)" ;;
    *) complain "$mib MiB: exit code $code: $(cat err.txt)" ;;
  esac
  [ $code -eq 0 ] || [ ! -e s.json ] || complain "$mib MiB: failed, but left a result"
  echo "$mib MiB: exit code $code: $(cat err.txt)"
done
[ -n "$done_at" ] || complain "did not run in 400 MiB of address space"

# Threads that the system refuses.
fails_with 2 "threads" sh -c "ulimit -v 2000000; $run --threads 4000 -o s.json --force"
finish
