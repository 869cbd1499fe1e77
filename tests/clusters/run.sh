#!/bin/sh
# make test-clusters: what 'kvcal launch' prints, submitted to a Slurm of this machine and run as Kubernetes would run it,
# gives the bytes of one process; then --mpi under mpirun. sh run.sh KVCAL; as root, for Slurm's daemons.
set -u
kvcal=$1
here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
PATH=$(dirname "$kvcal"):$PATH
export PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
demo=$source/datasets/demo/stressed
python=$source/build/test-clusters/bin/python
scratch=$(mktemp -d)
failed=0
slurm() { sh "$here/slurm.sh" "$1" "$scratch/slurm"; }
trap 'slurm stop; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
chmod 755 "$scratch"

complain() {
  echo "FAILED: $1"
  failed=1
}

passed() { [ $failed = 0 ] && echo "ok: $1"; }

if [ ! -x "$python" ]; then
  python3 -m venv "$source/build/test-clusters" && "$python" -m pip install -q pyyaml kubernetes-validate || exit 1
fi

kvcal calibrate "$demo" --prompts "$source/datasets/demo/prompts.jsonl" -q -o whole.json --stats whole.kvstats || exit 1

# new_folder NAME: with model and prompts, as every task of a job sees it.
new_folder() {
  mkdir "$scratch/$1" && cd "$scratch/$1" || exit 1
  ln -s "$demo" "a model"
  cp "$source/datasets/demo/prompts.jsonl" .
}

launch() { kvcal launch 'a model' --prompts prompts.jsonl --threads 1 --memory 1GiB "$@"; }

equal() {
  cmp kv-cache-scales.json "$scratch/whole.json" || complain "$1: other scales"
  cmp "$2" "$scratch/whole.kvstats" || complain "$1: other statistics"
}

wait_for_queue() {
  waited=0
  while [ -n "$(squeue -h)" ] && [ $waited -lt 300 ]; do
    waited=$((waited + 1))
    sleep 1
  done
  [ -z "$(squeue -h)" ] || complain "jobs are still in the queue: $(squeue)"
}

slurm start || exit 1
# shellcheck disable=SC1091
. "$scratch/slurm/environment"

new_folder array
launch --print slurm --parts 3 >job.sh || complain "launch slurm"
bash -n job.sh && shellcheck job.sh || complain "shellcheck of the array's script"
bash job.sh || complain "submitting the array"
wait_for_queue
equal "Slurm array" kvcal-????????????.kvstats
[ "$(find . -name 'kvcal-*.3-of-3.kvstats' | wc -l)" -eq 1 ] || complain "no file of part 3"
passed "Slurm array of 3 and its merge"

# A part that fails: the merge is not run; the part alone is submitted again.
new_folder failing
launch --print slurm --parts 3 >job.sh
sed 's/^exec kvcal calibrate/[ "$SLURM_ARRAY_TASK_ID" != 2 ] || exit 1\n&/' job.sh >broken.sh
bash broken.sh || complain "submitting the array that fails"
wait_for_queue
[ ! -e kv-cache-scales.json ] || complain "scales although a part failed"
bash job.sh 2 || complain "submitting part 2 again"
wait_for_queue
equal "Slurm, part 2 again" kvcal-????????????.kvstats
passed "Slurm array whose part 2 failed first"

new_folder mpi
launch --print mpi --parts 3 >job.sh || complain "launch mpi"
bash -n job.sh && shellcheck job.sh || complain "shellcheck of the MPI job"
sbatch job.sh || complain "submitting the MPI job"
wait_for_queue
equal "Slurm, MPI" kvcal-????????????.kvstats
passed "MPI job of 3 ranks in Slurm"

# srun starts the parts.
new_folder step
srun -n 4 kvcal calibrate 'a model' --prompts prompts.jsonl --threads 1 -q --shard auto --stats run.kvstats ||
  complain "srun"
kvcal merge run.*-of-4.kvstats -o run.kvstats -q && kvcal solve run.kvstats -q -o kv-cache-scales.json
equal "srun" run.kvstats
passed "srun of 4 tasks"
slurm stop

new_folder kubernetes
launch --print k8s --parts 3 --image registry.example/kvcal:1 >job.yaml || complain "launch k8s"
"$python" "$here/run_manifest.py" job.yaml . || complain "the manifest"
equal "Kubernetes" kvcal-????????????.kvstats
passed "Kubernetes: schemas, 3 parts and their merge run as processes"

cd "$scratch" && sh "$here/mpi.sh" "$kvcal" "$source" || complain "mpi.sh"
passed "mpirun"
exit $failed
