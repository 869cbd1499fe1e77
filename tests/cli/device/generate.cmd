# Both backends go on with the same tokens, and a GPU with the same bytes each time.
generate() {
  "$BUILD/tests/emulated/kvcal" generate "$SOURCE/datasets/demo/natural" --prompt 'one two' --raw --max-new-tokens 6 --json --top 0 "$@" 2>/dev/null
}
generate --device cpu >cpu.json
generate --device cuda >cuda.json
generate --device cuda:0 >again.json
cmp cuda.json again.json
cmp cpu.json cuda.json && wc -l <cuda.json
