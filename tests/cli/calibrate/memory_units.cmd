# A size means what is typed, here as for 'plan --gpu-memory': GB are 10^9 bytes, and 2G could mean both.
calibrate() { kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q "$@"; }
calibrate --memory 2GB --dry-run --json | grep budget
calibrate --memory '2.5 GiB' --dry-run --json | grep budget
calibrate --memory 2G --dry-run
# exits 2
