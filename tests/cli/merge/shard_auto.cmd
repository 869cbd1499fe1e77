# Each process of a job finds its part and its file's name; merged they are the run in one piece. One that is missing is
# named, and so is one of another plan, which nothing is written of.
for i in 1 2 3 4 5; do echo "{\"id\": \"p$i\", \"input_ids\": [$i, 7, 1$i, 3, 2$i]}"; done >prompts.jsonl
unset SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_ARRAY_TASK_ID PMIX_RANK PMI_RANK PMI_SIZE OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE RANK WORLD_SIZE JOB_COMPLETION_INDEX
set -- "$SOURCE/tests/arch/golden/qwen3_5" --prompts prompts.jsonl -q --no-sanity
kvcal calibrate "$@" -o whole.json --stats whole.kvstats
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 kvcal calibrate "$@" --shard auto --stats run.kvstats --resume
JOB_COMPLETION_INDEX=2 kvcal calibrate "$@" --shard auto/3 --stats run.kvstats
kvcal merge run.*-of-3.kvstats -o merged.kvstats || echo exit $?
SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=3 kvcal calibrate "$@" --passes 1 --shard auto --stats other.kvstats
kvcal merge run.*-of-3.kvstats other.*-of-3.kvstats -o merged.kvstats || echo exit $?
RANK=1 WORLD_SIZE=3 kvcal calibrate "$@" --shard auto --stats run.kvstats
ls
kvcal merge run.*-of-3.kvstats -o merged.kvstats && cmp whole.kvstats merged.kvstats && echo equal
RANK=1 WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=2 kvcal calibrate "$@" --shard auto --stats run.kvstats || echo exit $?
kvcal calibrate "$@" --shard auto --stats run.kvstats || echo exit $?
