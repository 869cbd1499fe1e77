# The GPU when there is one; the processor without a word when there is none, and with one when it cannot be used.
try() {
  "$BUILD/tests/emulated/kvcal" calibrate "$SOURCE/tests/arch/golden/qwen3" --prompts prompts.jsonl -q -o s.json --force "$@"
  grep '"isa"' s.json
}
echo '{"id": "a", "input_ids": [5, 6, 7, 8, 9, 10, 11, 12]}' >prompts.jsonl
try
KVCAL_EMULATED_DEVICE=hidden try --device auto
KVCAL_EMULATED_DEVICE=old try --device auto
for error in 100 801 802 803 999 71; do
  KVCAL_EMULATED_DEVICE="error $error" try --device auto
done
KVCAL_EMULATED_DEVICE=hidden "$BUILD/tests/emulated/kvcal" --version | tail -n 1
KVCAL_EMULATED_DEVICE='error 802' "$BUILD/tests/emulated/kvcal" --version | tail -n 1
