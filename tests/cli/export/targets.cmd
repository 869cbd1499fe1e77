# Every target that a model with plain weights can have; the others say why not.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
for target in vllm sglang sglang-json modelopt tgi quark json; do
  kvcal export s.json --model "$SOURCE/datasets/demo/natural" --to $target -o out.$target >text || echo exit $?
  sed -n '/^serve:/,/^$/p' text
done
ls -d out.*
