# calibrate --mpi under mpirun: the bytes of one process with any number of ranks, prompts on rank 0 alone, a failed rank
# that ends the job by its name, and a job that goes on with other ranks. sh mpi.sh KVCAL SOURCE [MPIRUN]
. "$(dirname "$0")/../unlucky/common.sh"

mpirun=${3:-mpirun}
stressed=$source/datasets/demo/stressed
cp "$source/datasets/demo/prompts.jsonl" .
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_orte_abort_print_stack=0 PRTE_MCA_prte_silence_shared_fs=1

# ranks N COMMAND...
ranks() {
  n=$1
  shift
  "$mpirun" --oversubscribe --bind-to none -n "$n" "$@"
}
ranks 2 true >out.txt 2>&1 || skip "mpirun starts nothing here: $(head -n 3 out.txt)"

equal() {
  cmp -s "$1" "$2" || complain "$3: $1 is not $2"
}

calibrate="$kvcal calibrate $demo --prompts prompts.jsonl --threads 1 -q"
$calibrate -o whole.json --stats whole.kvstats || complain "the run in one process"
for n in 1 2 3 5; do
  ranks $n $calibrate --mpi -o $n.json --stats $n.kvstats >out.txt 2>&1 || complain "$n ranks: $(cat out.txt)"
  equal whole.json $n.json "$n ranks"
  equal whole.kvstats $n.kvstats "$n ranks"
done

# Token ids, text and weights too, an MLA model, more ranks than a power of two.
for i in 1 2 3 4 5 6 7; do
  echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i], \"weight\": 2, \"tags\": [\"t$i\", \"all\"]}"
done >ids.jsonl
latent="$kvcal calibrate $source/tests/arch/golden/deepseek_v3 --prompts ids.jsonl --threads 1 -q"
$latent -o latent.json --stats latent.kvstats 2>err.txt || complain "MLA in one process: $(cat err.txt)"
ranks 7 $latent --mpi -o ranks.json --stats ranks.kvstats >out.txt 2>&1 || complain "MLA, 7 ranks: $(cat out.txt)"
equal latent.json ranks.json "MLA"
equal latent.kvstats ranks.kvstats "MLA"

# GPUs, emulated: each rank takes its own.
build=$(dirname "$kvcal")
if [ -x "$build/tests/emulated/kvcal" ]; then
  mkdir gpus
  cp "$build"/tests/emulated/kvcal "$build"/tests/emulated/lib* "$build/libkvcal_mpi.so" gpus/
  export KVCAL_EMULATED_DEVICES=2
  emulated="gpus/kvcal calibrate $source/tests/arch/golden/qwen3 --prompts ids.jsonl -v"
  $emulated -o gpu.json --stats gpu.kvstats >out.txt 2>&1 || complain "one process on a GPU: $(cat out.txt)"
  ranks 3 $emulated --mpi -o gpus.json --stats gpus.kvstats >out.txt 2>&1 || complain "ranks on GPUs: $(cat out.txt)"
  equal gpu.json gpus.json "GPUs"
  equal gpu.kvstats gpus.kvstats "GPUs"
  for who in '0 of this machine computes on cuda:0' '1 of this machine computes on cuda:1' '2 of this machine computes on cuda:0'; do
    grep -q "process $who" out.txt || complain "no '$who' in: $(cat out.txt)"
  done
  unset KVCAL_EMULATED_DEVICES
fi

# No file system in common: each rank has a folder of its own, only rank 0 has prompts.
# shellcheck disable=SC2016  # for the ranks' shell
apart='cd "rank$OMPI_COMM_WORLD_RANK" && exec "$@"'
for rank in 0 1 2; do
  mkdir rank$rank
  ln -s "$demo" rank$rank/model
done
cp prompts.jsonl rank0/
in_folders="ranks 3 sh -c"
mpi="$kvcal calibrate model --prompts prompts.jsonl --threads 1 -q --mpi -o out.json --stats out.kvstats"
$in_folders "$apart" sh $mpi >out.txt 2>&1 || complain "ranks with folders of their own: $(cat out.txt)"
equal rank0/out.kvstats whole.kvstats "folders apart"
[ ! -e rank1/out.json ] && [ ! -e rank2/out.json ] || complain "a rank other than 0 has written"
rm -f rank0/out.*

# broken TEXT: the job fails, says TEXT, and nothing is written.
broken() {
  $in_folders "$apart" sh $mpi >out.txt 2>&1 && complain "$1: the job succeeded"
  grep -q "kvcal: error: $1" out.txt || complain "no '$1' in: $(cat out.txt)"
  [ -z "$(find rank0 rank1 rank2 -name 'out*' -o -name '.kvcal*')" ] || complain "$1: something was written"
}
rm rank2/model && ln -s "$stressed" rank2/model
broken "rank 2 on '.*': its weights_fingerprint is"
rm rank2/model
broken "rank 2 on '.*': .*model"
ln -s "$demo" rank2/model
mv rank0/prompts.jsonl .
broken "rank 0 on '.*': .*prompts.jsonl"
[ "$(grep -c 'kvcal: error' out.txt)" -eq 1 ] || complain "more than rank 0 speaks: $(cat out.txt)"
ranks 2 $calibrate --mpi --shard 1/2 -o x.json >out.txt 2>&1 && complain "--mpi and --shard"
grep -q "rank 0 on '.*': --mpi and --shard both" out.txt || complain "no --mpi and --shard in: $(cat out.txt)"
ranks 9 $latent --mpi -o nine.json --max-prompts 2 --passes 1 >out.txt 2>&1 && complain "more ranks than sequences"
grep -q 'too few for 9 shards' out.txt || complain "no 'too few' in: $(cat out.txt)"

# Ended while it runs; then with fewer ranks, and with more.
long="$calibrate --passes 12"
$long -o long.json --stats long.kvstats || complain "the long run in one process"
for other in 2 5; do
  rm -rf s.json s.kvstats
  "$mpirun" --oversubscribe --bind-to none -n 3 $long --mpi -o s.json --stats s.kvstats --resume >out.txt 2>&1 &
  pid=$!
  waited=0
  until [ "$(find . -path './s.json.*-of-3.kvcal-resume/*.kvresume' | wc -l)" -ge 3 ] || [ $waited -gt 600 ]; do
    waited=$((waited + 1))
    sleep 0.05
  done
  kill -TERM $pid 2>/dev/null
  wait $pid && complain "the run that was to be ended ended by itself"
  [ ! -e s.json ] || complain "scales of an ended run"
  ranks $other $long --mpi -o s.json --stats s.kvstats --resume >out.txt 2>&1 || complain "$other ranks go on: $(cat out.txt)"
  equal long.json s.json "3 ranks, then $other"
  equal long.kvstats s.kvstats "3 ranks, then $other"
  [ -z "$(find . -name '*.kvcal-resume')" ] || complain "states are still there: $(find . -name '*.kvcal-resume')"
done
finish
