# Every verb and option given every kind of file that it does not take: the message says what it is and what was expected.
M=$SOURCE/datasets/demo/natural
set -- -p "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
mkdir in && cd in
kvcal calibrate "$M" "$@" -o scales --stats statistics --evaluate evaluation
kvcal calibrate "$M" "$@" --shard 1/2 --stats shard
kvcal report statistics -o page -q
kvcal validate scales --json >findings
kvcal validate scales --format sarif >sarif
kvcal export scales --model "$M" -o export >/dev/null
for to in json lightllm ort-genai; do kvcal export scales --model "$M" --to $to -o $to >/dev/null; done
kvcal fold "$M" --stats statistics --force --no-check -q -o folded >/dev/null
mv folded/kvcal-fold.json fold && rm -r folded
printf '{"model_type": "x", "kv_cache": {"scaling_factor": {"0": {"0": 1.5}}}}' >sglang
# What verbs print with --json.
kvcal inspect "$M" --json >json_inspect
kvcal inspect "$M" --identity >json_identity
kvcal plan "$M" --gpu H100 --json >json_plan
kvcal calibrate "$M" "$@" --dry-run --json >json_calibrate
kvcal stats statistics --json >json_stats
kvcal solve statistics --json -q -o s >json_solve && rm s
kvcal merge statistics --json -q -o s >json_merge && rm s
kvcal diff scales scales --json >json_diff
kvcal drift scales --stats statistics --json >json_drift
kvcal doctor "$M" --json >json_doctor
kvcal doctor --list --json >json_list
kvcal validate --list-rules --json >json_rules
kvcal export scales --model "$M" --dry-run --json >json_export
kvcal fold "$M" --stats statistics --dry-run --json >json_fold
for name in tokenizer tokenizer_config generation_config; do cp "$M/$name.json" $name; done
printf 'PK\003\004  archive/data.pkl' >torch
cp export/kvcal-export.json record
cp "$M/config.json" config
cp "$M/model.safetensors" weights
head -n 3 "$SOURCE/datasets/demo/prompts.jsonl" >prompts
printf 'GGUF\003\000\000\000' >gguf
gzip -c statistics >gz
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' >lfs
mkdir resume && cp statistics resume/a.kvresume
cd ..

kinds() { cd in && echo * && cd ..; }
n=0
# What a file of this name is called.
name_of() {
  case $1 in
    scales) echo 'a scale file' ;;
    statistics | shard) echo 'a statistics file' ;;
    evaluation) echo 'an evaluation' ;;
    page) echo "a page of 'kvcal report'" ;;
    findings | sarif) echo "a report of 'kvcal validate'" ;;
    json) echo 'a map of scales for scripts (export --to json)' ;;
    lightllm) echo 'a scale file of LightLLM (export --to lightllm)' ;;
    ort-genai) echo 'a scale file of onnxruntime-genai (export --to ort-genai)' ;;
    sglang) echo 'a scale file of SGLang (export --to sglang-json)' ;;
    json_*) echo 'what a verb of this program prints (--json)' ;;
    tokenizer* | generation_config) echo "a model's tokenizer or settings" ;;
    torch) echo "PyTorch's pickled weights" ;;
    record) echo 'the record of an export' ;;
    fold) echo 'the record of a fold' ;;
    export) echo 'a model folder' ;;
    config) echo "a model's config.json" ;;
    weights) echo 'a part of a checkpoint' ;;
    prompts) echo 'a prompt file' ;;
    gguf) echo 'a GGUF model' ;;
    gz) echo 'compressed (gzip or zstd)' ;;
    lfs) echo 'a Git LFS pointer, not the file itself' ;;
    resume) echo 'the state of an interrupted run (--resume)' ;;
  esac
}
# try "kinds that are taken" command with @ for the file
try() {
  taken=" $1 "
  for kind in $(kinds); do
    case $taken in *" $kind "*) continue ;; esac
    n=$((n + 1))
    command=$(echo "$2" | sed "s|@|in/$kind|")
    eval "kvcal $command" >out 2>error
    status=$?
    grep -q "'in/$kind' is $(name_of $kind), expected " error && [ $status = 2 ] && [ "$(wc -l <error)" = 1 ] ||
      echo "kvcal $command: exit $status: $(cat error)"
  done
}
S='statistics shard'
for verb in 'stats @' 'solve @ -o o' 'merge @ -o o' "merge in/statistics @ -o o" "fold \$M --stats @ -o o" \
  'drift in/scales --stats @' "evaluate \$M --formats int8 --stats @ -o o" "validate in/export --stats @"; do
  try "$S" "$verb"
done
try "$S scales" 'report @ -o o'
try "$S scales" 'diff @ in/scales'
try "$S scales" 'diff in/scales @'
for verb in 'drift @ --stats in/statistics' "export @ --model \$M -o o" "evaluate \$M --scales @ -o o" \
  "evaluate \$M --scales in/scales @ -o o" "plan \$M --gpu H100 --scales @" 'validate in/evaluation --scales @' \
  'validate in/export --scales @'; do
  try scales "$verb"
done
try 'scales sglang' 'doctor --scales @'
for verb in "export in/scales --model \$M --recipe @ -o o" "plan \$M --gpu H100 --recipe @" 'report in/scales --evaluation @ -o o'; do
  try evaluation "$verb"
done
for verb in "calibrate \$M -p @ -o o" "evaluate \$M -p @ -o o" "prompts \$M -p @" "generate \$M -p @" \
  "calibrate \$M -p in/prompts @ -o o" "calibrate \$M -p @ --skip-bad -o o" "launch \$M --print slurm -p @"; do
  try 'prompts gz' "$verb"
done
# Prompt files may be compressed: what is in the file tells.
kvcal prompts "$M" -p in/gz 2>&1
for verb in 'calibrate @ -o o' 'evaluate @ -o o' 'prompts @' 'generate @ --prompt x' 'inspect @' 'plan @ --gpu H100' \
  'fold @ --stats in/statistics -o o' 'export in/scales --model @ -o o' 'validate in/scales --model @' \
  "export in/scales --model \$M --to scales --also-for @ -o o"; do
  try 'export config' "$verb"
done
try "$S scales evaluation export page" 'validate @'
try 'export config gz scales sglang' 'doctor @'
for verb in 'doctor --log @' 'doctor --command-file @'; do try 'export config gz' "$verb"; done
try 'export config gz prompts' 'doctor --output @'
ls o 2>/dev/null
echo "$n combinations"
