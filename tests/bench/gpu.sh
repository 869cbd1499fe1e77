#!/bin/sh
# gpu.sh [--rehearse] [--folder BUILD] [--results FOLDER] [--limit SECONDS] [--rounds N] [--sanitized FILTER] [PART...]
#
# Tests and measures the CUDA backend on the GPU of this machine; run it from the top of the sources. BUILD holds the
# programs (tests/bench/gpu/pack.sh makes it where nvcc is: build/gpu). Parts: ceilings models calibrate (these three when none is
# named), tests same kernels limits timeline sanitizers other_models attention peers delta state_space experts picks whole_run probes. The ceilings (P0)
# are measured in every run that measures, since results mean nothing without. What fails is
# recorded, marks the results and ends nothing; each part has its own time, and what is left when the limit (580 s) comes is listed
# as not run. Writes FOLDER/DATE-DEVICE-TIME.json (tests/bench/results) with what else parts leave beside it: lines as they came, the
# tests' XML, the calibration's notes. Prints a table; 1 when something failed.
#
# --rehearse: the same with the emulator's programs at toy sizes, BUILD being a build folder with tests; no measurement.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
rehearse=
build=build/gpu
results=tests/bench/results
limit=580
rounds=3
sanitized='*Attention*:*ConvParity*:*DeltaParity*:*MoeParity*:Routing*:*RowOps*:Statistics*:*ServedRows*:*SampleParity*/4:*SampleParity*/15'
sanitized=$sanitized:'*Ssd*:*Scan*:GroupedProduct*:Pick*:*PickParity*:*Streams*:*StreamRows*:*Thorough*:SampleBatches*:*LinearParity*'
parts=
while [ $# -gt 0 ]; do
  case $1 in
    --rehearse) rehearse=yes ;;
    --folder) build=$2; shift ;;
    --results) results=$2; shift ;;
    --limit) limit=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --sanitized) sanitized=$2; shift ;;
    ceilings | models | calibrate | tests | same | kernels | limits | timeline | sanitizers | other_models | attention | peers | delta | state_space | experts | picks | \
      whole_run | probes) parts="$parts $1" ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
[ -n "$parts" ] || parts=' ceilings models calibrate'
measures=
for part in $parts; do
  case $part in
    tests | same | kernels | limits | timeline | sanitizers | probes | calibrate) ;; # nothing is compared with anything
    *) measures=yes ;;
  esac
done
case "$measures $parts " in
  yes*' ceilings '*) ;;
  yes*) parts=" ceilings$parts" ;;
esac

start=$(date +%s)
# left [MOST]: seconds, of the whole or at most these.
left() {
  seconds=$((limit - $(date +%s) + start))
  [ $# -eq 0 ] || [ "$seconds" -lt "$1" ] || seconds=$1
  echo "$seconds"
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
lines=$scratch/lines
: >"$lines"
python=${PYTHON:-python3}

if [ -n "$rehearse" ]; then
  device=emulator driver=none
  bench=$build/tests/bench/gpu_bench_emulated writer=$build/tests/bench/write_random_model kvcal=$build/tests/emulated/kvcal
  parity=$build/tests/parity/test_parity_cuda arch=$build/tests/arch/test_arch_cuda
  toy='--toy --rounds 1' peer_options='--toy --device cpu' shapes='toy-dense toy-hybrid-moe' other_shapes=toy-latent-moe prompts='4 70' longest=200
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
  toy="--rounds $rounds" peer_options='' prompts='128 2048' longest=5000 filter=
  shapes='qwen3-8b-4-layers qwen3.5-35b-a3b-4-layers'
  other_shapes='glm-4.7-flash-3-layers llama-70b-2-layers deepseek-v3-2-layers'
fi

stamp=$(date -u +%Y-%m-%d)-$(printf %s "$device" | tr 'A-Z /' 'a-z--')-$(date -u +%H%M%S)
mkdir -p "$results"

# line ID NAME WHY: what was not run. passed ID NAME: a set of tests. failed ID NAME WHY: marks the results.
line() { printf '{"id":"%s","name":"%s","not_run":"%s"}\n' "$1" "$2" "$3" >>"$lines"; }
passed() { printf '{"id":"%s","name":"%s","unit":"passed","values":[1],"median":1,"least":1,"most":1}\n' "$1" "$2" >>"$lines"; }
failed() {
  echo "gpu.sh: $2 failed: $3" >&2
  printf '{"id":"%s","name":"%s","failed":"%s"}\n' "$1" "$2" "$(printf %s "$3" | tr -d '"\\\t' | cut -c1-200)" >>"$lines"
}

# limited MOST COMMAND...: within so many seconds and what is left; 124 when they were too few, or none.
limited() {
  seconds=$(left "$1")
  shift
  [ "$seconds" -ge 5 ] || return 124
  timeout "$seconds" "$@"
}

# measure NAME MOST COMMAND...: its standard output are lines.
measure() {
  name=$1
  shift
  status=0
  limited "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
  grep '^{' "$scratch/out" >>"$lines" || true
  cat "$scratch/err" >&2
  case $status in
    0) ;;
    124) line part "$name" 'no time was left' ;;
    *) failed part "$name" "ended with $status: $(tail -n 1 "$scratch/err")" ;;
  esac
}

# in_shards SHARDS MOST NAME PROGRAM [RUNNER...]: a set of tests, with $GTEST_OPTIONS, dealt to several processes. What they say is
# in one file; the status is that of one that failed, else 124 where time was short.
in_shards() {
  shards=$1 most=$2 name=$3 program=$4
  shift 4
  shard=0
  processes=
  while [ "$shard" -lt "$shards" ]; do
    # shellcheck disable=SC2086  # options
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard limited "$most" "$@" "$program" $GTEST_OPTIONS \
      --gtest_output="xml:$scratch/$name-$shard.xml" >"$scratch/$name-$shard.txt" 2>&1 &
    processes="$processes $!"
    shard=$((shard + 1))
  done
  first=0
  for process in $processes; do
    this=0
    wait "$process" || this=$?
    case $first in 0 | 124) [ "$this" -eq 0 ] || first=$this ;; esac
  done
  cat "$scratch/$name"-*.txt >"$results/$stamp-$name.txt"
  return "$first"
}

# gtest NAME PROGRAM: what each test said is in one XML.
gtest() {
  [ -x "$2" ] || { line T "$1" 'not in this pack'; return; }
  GTEST_OPTIONS="--gtest_brief=1 $filter"
  status=0
  in_shards "$([ -n "$rehearse" ] && echo 1 || echo 8)" 120 "$1" "$2" || status=$?
  grep -v '^Running main\|Skipped$' "$results/$stamp-$1.txt" | head -n 300 >&2 || true
  {
    echo '<testsuites>'
    cat "$scratch/$1"-*.xml 2>/dev/null | grep -v '^<?xml\|^</*testsuites' || true
    echo '</testsuites>'
  } >"$results/$stamp-$1.xml"
  case $status in
    0) passed T "$1" ;;
    124) failed T "$1" 'no time was left' ;;
    *) failed T "$1" "ended with $status; see $stamp-$1.txt" ;;
  esac
}

# sanitize TOOL NAME FILTER PROGRAM: of our own kernels; racecheck takes what cuDNN's do with barriers in memory for races.
sanitize() {
  if ! command -v compute-sanitizer >/dev/null || [ -n "$rehearse" ]; then
    line T "$1, $2" "$([ -n "$rehearse" ] && echo a rehearsal || echo no compute-sanitizer)"
    return
  fi
  [ -x "$4" ] || { line T "$1, $2" 'not in this pack'; return; }
  report=$results/$stamp-$1-${2%%[ ,]*}.txt
  GTEST_OPTIONS="--gtest_brief=1 --gtest_filter=$3"
  status=0
  in_shards 15 180 "$1-${2%%[ ,]*}" "$4" compute-sanitizer --kernel-name kns=kvcal --tool "$1" --error-exitcode 9 || status=$?
  if grep -q 'not supported\|Unable to find' "$report"; then
    line T "$1, $2" 'this machine refuses compute-sanitizer'
  elif [ "$status" -eq 124 ]; then
    line T "$1, $2" "no time was left; $(grep -c 'PASSED' "$report" || true) of $shards parts passed"
  elif [ "$status" -ne 0 ]; then
    failed T "$1, $2" "ended with $status; see $stamp-$1-${2%%[ ,]*}.txt"
  else
    passed T "$1, $2"
  fi
}

tests() {
  gtest parity "$parity"
  [ -n "$rehearse" ] || gtest arch "$arch" # its emulated cases are tests of their own
}

# A part's commands fail one by one: within a condition the shell's -e does nothing.
compare_devices() {
  for run in 'cpu --device cpu' 'cuda --device cuda' 'again --device cuda' 'small --device cuda --chunk-tokens 256'; do
    # shellcheck disable=SC2086  # options
    "$kvcal" calibrate "$1" --prompts datasets/demo/prompts.jsonl -q --force -o "$scratch/${run%% *}.json" ${run#* } || return
  done
  for other in again small; do cmp "$scratch/cuda.json" "$scratch/$other.json" || return; done
  "$kvcal" diff "$scratch/cpu.json" "$scratch/cuda.json" --tolerance 0.02 || return
  "$kvcal" evaluate "$1" --prompts datasets/demo/questions.jsonl --device cuda -q --force -o "$scratch/evaluation.json" \
    --scales "$scratch/cuda.json"
}

# The demo models on this GPU and on its processor: equal bytes again and in other batches, scales within 2 %.
same() {
  if [ -n "$rehearse" ]; then
    line T 'the processor and the GPU' 'a rehearsal'
    return
  fi
  for model in natural stressed; do
    status=0
    compare_devices "datasets/demo/$model" >"$results/$stamp-same-$model.txt" 2>&1 || status=$?
    cat "$results/$stamp-same-$model.txt" >&2
    if [ "$status" -eq 0 ]; then passed T "the processor and the GPU, $model"; else
      failed T "the processor and the GPU, $model" "ended with $status: $(tail -n 1 "$results/$stamp-same-$model.txt")"
    fi
  done
}

# Where the time goes: each kernel's share of one sweep, by Nsight Compute, which leaves the clocks alone.
kernels() {
  if [ -n "$rehearse" ] || ! command -v ncu >/dev/null; then
    line T 'time of each kernel' "$([ -n "$rehearse" ] && echo a rehearsal || echo no ncu)"
    return
  fi
  for shape in $shapes; do
    write_model "$shape" || continue
    status=0
    limited 100 ncu --clock-control none --metrics gpu__time_duration.sum --csv --log-file "$scratch/kernels.csv" \
      "$bench" observed --rounds 1 --model "$scratch/$shape" >/dev/null 2>"$scratch/err" || status=$?
    if [ "$status" -ne 0 ]; then
      failed T "time of each kernel, $shape" "ended with $status: $(tail -n 1 "$scratch/err")"
    fi
    env -u LD_LIBRARY_PATH "$python" - "$scratch/kernels.csv" >"$results/$stamp-kernels-$shape.txt" <<'END' || true
import collections, csv, sys
rows = [line for line in open(sys.argv[1]) if line.startswith('"')]
times = collections.defaultdict(list)
for row in csv.DictReader(rows):
    scale = {"nsecond": 1e-6, "ns": 1e-6, "usecond": 1e-3, "us": 1e-3, "msecond": 1, "ms": 1, "second": 1e3, "s": 1e3}[row["Metric Unit"]]
    times[row["Kernel Name"]].append(scale * float(row["Metric Value"].replace(",", "")))
print("   ms  calls    most  kernel")
for name, t in sorted(times.items(), key=lambda x: -sum(x[1])):
    print(f"{sum(t):8.2f} {len(t):5d} {max(t):8.3f}  {name[:150]}")
END
    head -n 40 "$results/$stamp-kernels-$shape.txt" >&2
  done
}

# What own kernels wait for, of the first batch that has them: memory, shared memory, arithmetic, how many warps there are.
limits() {
  if [ -n "$rehearse" ] || ! command -v ncu >/dev/null; then
    line T 'limits of kernels' "$([ -n "$rehearse" ] && echo a rehearsal || echo no ncu)"
    return
  fi
  for shape in $shapes; do
    write_model "$shape" || continue
    of=sample_outputs\|sample_logits\|accumulate\|heads_kernel\|map_halves
    [ "$shape" = "${shapes%% *}" ] || of=grouped_tile\|combine\|recurrence_tiles\|conv_parts\|gated_rms
    status=0
    limited 60 ncu --clock-control none --kernel-name "regex:$of" --launch-count 10 --section SpeedOfLight --section Occupancy \
      --section WarpStateStats --section SchedulerStats --section MemoryWorkloadAnalysis --section ComputeWorkloadAnalysis \
      --section LaunchStats "$bench" observed --rounds 1 --model "$scratch/$shape" >"$results/$stamp-limits-$shape.txt" 2>&1 || status=$?
    [ "$status" -eq 0 ] || failed T "limits of kernels, $shape" "ended with $status: $(tail -n 1 "$results/$stamp-limits-$shape.txt")"
  done
}

# When which kernel ran, and what the GPU waited for between them.
timeline() {
  library=$PWD/$build/bin/libtimeline.so
  if [ -n "$rehearse" ] || [ ! -f "$library" ]; then
    line T 'timeline' "$([ -n "$rehearse" ] && echo a rehearsal || echo no libtimeline.so)"
    return
  fi
  cupti=/usr/local/cuda/lib64:/usr/local/cuda/extras/CUPTI/lib64:$("$python" -c 'import nvidia.cuda_cupti as c
print(c.__path__[0] + "/lib")' 2>/dev/null || true)
  for shape in $shapes; do
    write_model "$shape" || continue
    status=0
    limited 60 env LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$cupti" CUDA_INJECTION64_PATH="$library" KVCAL_TIMELINE="$scratch/timeline" \
      "$kvcal" calibrate "$scratch/$shape" --prompts "$scratch/$shape/prompts.jsonl" --passes 1 --warmup-passes 0 --no-sanity \
      --max-length 2048 --device cuda --quiet --force -o "$scratch/scales.json" >/dev/null 2>"$scratch/err" || status=$?
    if [ "$status" -ne 0 ] || ! [ -s "$scratch/timeline" ]; then
      failed T "timeline, $shape" "ended with $status: $(tail -n 1 "$scratch/err")"
      continue
    fi
    env -u LD_LIBRARY_PATH "$python" "$here/gpu/timeline.py" "$scratch/timeline" >"$results/$stamp-timeline-$shape.txt" || true
    cp "$scratch/timeline" "$results/$stamp-timeline-$shape.lines"
    head -n 40 "$results/$stamp-timeline-$shape.txt" >&2
  done
}

# The kernels that share memory between threads, once each, or FILTER's tests; whole sets would take an hour.
sanitizers() {
  sanitize racecheck 'parity kernels' "$sanitized" "$parity"
  sanitize memcheck 'parity kernels' "$sanitized" "$parity"
  sanitize memcheck 'architectures, a few' '*qwen3:*qwen3_5:*glm4_moe_lite*' "$arch"
}

# Prompts of 1 to $longest tokens, each length about a tenth longer than the last one; in all orders of long and short.
mixed_prompts() {
  awk -v longest="$longest" 'BEGIN {
    for (i = 0; i < 63; ++i) {
      n = int(exp(log(longest) * ((i * 29) % 63) / 62) + 0.5)
      printf "{\"id\": \"mixed-%d\", \"input_ids\": [", i
      for (j = 0; j < n; ++j) printf "%s%d", j ? ", " : "", (j * 31 + i * 17 + j % 7) % 60
      print "]}"
    }
  }'
}

# What a user does, with the notes: which products and attentions the libraries do, and why not.
calibrate() {
  model=$scratch/${shapes%% *}
  write_model "${shapes%% *}" || return 0
  mixed_prompts >"$scratch/mixed.jsonl"
  status=0
  limited 120 "$kvcal" calibrate "$model" --prompts "$scratch/mixed.jsonl" --passes 1 --warmup-passes 0 --no-sanity \
    --device cuda -v --force -o "$scratch/mixed.json" >"$results/$stamp-calibrate.txt" 2>&1 || status=$?
  cat "$results/$stamp-calibrate.txt" >&2
  if [ "$status" -eq 0 ]; then
    passed T 'calibrate -v, mixed lengths'
  else
    failed T 'calibrate -v, mixed lengths' "ended with $status: $(tail -n 1 "$results/$stamp-calibrate.txt")"
  fi
}

# write_model SHAPE: once.
write_model() {
  [ -d "$scratch/$1" ] && return
  # shellcheck disable=SC2086  # two numbers
  "$writer" "$1" "$scratch/$1" $prompts && return
  rm -rf "${scratch:?}/$1"
  failed part "writing $1" 'is there room on the disk?'
  return 1
}

peers() {
  if ! "$python" -c 'import torch, transformers' 2>/dev/null; then
    line P4 'torch attention' "no torch and transformers in $python"
    line P13a 'lean loop' "no torch and transformers in $python"
    return
  fi
  model_options=
  more=
  case $parts in *other_models*) more=$other_shapes ;; esac
  for shape in $shapes $more; do
    write_model "$shape" || continue
    model_options="$model_options --model $scratch/$shape"
  done
  # shellcheck disable=SC2086  # lists of options
  measure 'torch attention' 120 "$python" "$here/gpu/peers.py" attention $peer_options
  # shellcheck disable=SC2086
  measure 'transformers loops' 300 "$python" "$here/gpu/peers.py" loops $peer_options --bench "$bench" $model_options
}

models() {
  for shape in "$@"; do
    write_model "$shape" || continue
    # shellcheck disable=SC2086
    measure "models, $shape" 150 "$bench" models $toy --model "$scratch/$shape"
    [ "$shape" = "${shapes%% *}" ] || rm -rf "${scratch:?}/$shape" # the largest have 25 GB
  done
}

# shellcheck disable=SC2086  # lists
for part in $parts; do
  echo "gpu.sh: $part, $(left) s left" >&2
  case $part in
    tests | same | kernels | limits | timeline | sanitizers | calibrate | peers) $part ;;
    ceilings) measure ceilings 90 "$bench" ceilings $toy --disk "$scratch" ;;
    models) models $shapes ;;
    other_models) models $other_shapes ;;
    attention | delta | state_space | experts | picks) measure "$part" 120 "$bench" "$part" $toy ;;
    whole_run)
      first=$scratch/${shapes%% *}
      write_model "${shapes%% *}" || continue
      measure whole_run 240 "$bench" whole_run $toy --model "$first" --command "$kvcal calibrate $first --prompts $first/prompts.jsonl \
--passes 1 --warmup-passes 0 --no-sanity --max-length 2048 --device cuda --quiet --force -o $scratch/scales.json"
      ;;
    probes)
      [ -z "$rehearse" ] || { line probes 'all probes' 'a rehearsal'; continue; }
      [ -n "$(ls "$build/bin/probes")" ] || { line probes 'all probes' 'pack.sh was not asked for them'; continue; }
      for probe in "$build"/bin/probes/*; do measure "probe $(basename "$probe")" 60 "$probe"; done
      ;;
  esac
  cp "$lines" "$results/$stamp-lines.jsonl" # a run that is cut off has left something
done

commit=$(cat "$build/commit" 2>/dev/null || git rev-parse --short=12 HEAD 2>/dev/null || echo unknown) # of the programs
case " $parts " in
  *' ceilings '*)
    "$bench" collect "$results/$stamp.json" "device=$device" "driver=$driver" "date=$(date -u +%Y-%m-%d)" "commit=$commit" \
      <"$lines" || exit 1
    ;;
  *) cat "$lines" ;;
esac
! grep -q '"failed":' "$lines"
