# A GPU in the host's memory, of which CUDA calls 1 MiB free: the plan counts what the system can give, and the run fits.
set -- "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 --max-length 64 --device cuda
for state in full integrated; do
  export KVCAL_EMULATED_DEVICE=$state
  "$BUILD/tests/emulated/kvcal" calibrate "$@" --dry-run 2>&1 | grep -i memory
done
"$BUILD/tests/emulated/kvcal" calibrate "$@" -q -o out.json && ls
