# No file under 10 MB makes any verb use more than 1 GiB or 20 s beyond what its plan says: files of every kind that the
# program reads, made to take as much as they can. Pictures are in tests/unit/vision_limits_test.cpp, the numbers of
# every class's config in model_limits_test.cpp.
. "$(dirname "$0")/common.sh"
cost=$3
prompts=$source/datasets/demo/prompts.jsonl

if "$kvcal" --version | grep -qi sanitize; then skip "sanitizers take memory and time of their own"; fi

# cheap NAME COMMAND...: within the limits, by an exit code and at most one error line.
cheap() {
  name=$1
  shift
  "$cost" 1024 20 "$@" >out.txt 2>err.txt
  code=$?
  echo "$name: $(tail -n 1 err.txt)"
  [ $code -eq 0 ] || complain "$name: $(tail -n 2 err.txt | cut -c 1-300)"
}
# copies N TEXT: without line ends.
copies() { yes "$2" | head -n "$1" | tr -d '\n'; }
# model_with FILE: the demo model, whose FILE is made of standard input.
model_with() {
  rm -rf m && small_model m && cat >"m/$1"
}

small_model whole
"$kvcal" calibrate whole --prompts "$prompts" --max-prompts 2 -q -o s.json --stats s.kvstats || complain "calibrating"

# config.json: sizes, long lists, many members, depth.
for change in '"hidden_size": 2147483646' '"num_hidden_layers": 2147483646' '"vocab_size": 2147483646' \
  '"head_dim": 2147483646' '"max_position_embeddings": 9007199254740992'; do
  key=${change%%:*}
  sed "s/$key: [0-9]*/$change/" "$demo/config.json" | model_with config.json
  for verb in inspect 'plan --gpu H100' "calibrate --dry-run -p $prompts -o n.json" "prompts -p $prompts"; do
    # shellcheck disable=SC2086
    set -- $verb
    first=$1
    shift
    cheap "config $change, $first" "$kvcal" "$first" m "$@"
  done
done
{ sed '$d' "$demo/config.json"; echo ', "layer_types": ['; copies 3000000 '"x",'; echo '"x"]}'; } | model_with config.json
cheap "config, a list of words" "$kvcal" inspect m
awk 'BEGIN { print "{\"architectures\": [\"LlamaForCausalLM\"]"; for (i = 0; i < 600000; ++i) print ",\"k" i "\":0"; print "}" }' |
  model_with config.json
cheap "config, members" "$kvcal" inspect m
copies 9000000 '[' | model_with config.json
cheap "config, depth" "$kvcal" inspect m
copies 4000000 '1,' | sed 's/^/{"eos_token_id": [/; s/$/1]}/' | model_with generation_config.json
cheap "generation config" "$kvcal" generate m --prompt 1 --max-tokens 1

# Headers of safetensors: ten megabytes of entries, and lengths that are not there.
awk 'BEGIN { printf "{"; for (i = 0; i < 100000; ++i) printf "%s\"t%d\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? "," : "", i; printf "}" }' >header
n=$(wc -c <header)
le() { printf "\\$(printf %o $(($1 % 256)))\\$(printf %o $(($1 / 256 % 256)))\\$(printf %o $(($1 / 65536 % 256)))\\$(printf %o $(($1 / 16777216)))\\0\\0\\0\\0"; }
{ le "$n"; cat header; } | model_with model.safetensors
cheap "safetensors, entries" "$kvcal" inspect m
cheap "safetensors, entries, calibrate" "$kvcal" calibrate m -p "$prompts" -o n.json
printf '\377\377\377\377\377\377\377\177{}' | model_with model.safetensors
cheap "safetensors, a length" "$kvcal" calibrate m -p "$prompts" -o n.json

# Tokenizers and templates.
{ echo '{"model": {"type": "BPE", "merges": [], "vocab": {'; awk 'BEGIN { for (i = 0; i < 400000; ++i) print "\"k" i "\":" i "," }'; echo '"z": 999999999}}}'; } |
  model_with tokenizer.json
cheap "tokenizer, vocabulary" "$kvcal" prompts m -p "$prompts"
echo '{"chat_template": "{% for i in range(99999999) %}{{ i }}{% endfor %}"}' | model_with tokenizer_config.json
cheap "template, a loop" "$kvcal" prompts m -p "$prompts"
for end in '{{ ns.x == ns.y }}' '{{ ns.x|tojson }}' '{{ ns.x|string }}'; do
  {
    echo '{"chat_template": "{% set ns=namespace(x=[1],y=[1]) %}{% for i in range(50) %}{% set ns.x=[ns.x,ns.x] %}'
    echo "{% set ns.y=[ns.y,ns.y] %}{% endfor %}$end\"}"
  } | tr -d '\n' | model_with tokenizer_config.json
  cheap "template, $end" "$kvcal" prompts m -p "$prompts"
done
for part in decoder normalizer; do
  replace="{\"type\": \"Replace\", \"pattern\": {\"String\": \"5\"}, \"content\": \"55\"}"
  key=$part"s"
  {
    echo "{\"$part\": {\"type\": \"Sequence\", \"$key\": [$replace"
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do echo ",$replace"; done
    echo ']},'
    sed "s/^  \"$part\": {/  \"another\": {/" "$demo/tokenizer.json" | tail -c +2
  } | model_with tokenizer.json
  cheap "tokenizer, $part" "$kvcal" generate m --prompt 'What is 5 * 5 + 3?'
done

# Prompts: unpacked, repeated, long.
awk 'BEGIN { for (i = 0; i < 100000; ++i) print "{\"text\": \"" i " 0000000000000000000000000000000000000000000000000000000000000000000000000000000000\"}" }' | gzip -9 >part.gz
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do cat part.gz; done >bomb.jsonl.gz
head -c 50000000 /dev/zero | tr '\0' ' ' | gzip -9 >part.gz
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do cat part.gz part.gz part.gz; done >spaces.jsonl.gz
cheap "prompts, gzip" "$kvcal" prompts whole -p bomb.jsonl.gz
cheap "prompts, gzip of spaces" "$kvcal" prompts whole -p spaces.jsonl.gz
echo "{\"text\": \"$(copies 9000000 a)\"}" >long.jsonl
cheap "prompts, one text" "$kvcal" prompts whole -p long.jsonl
for i in 1 2 3 4 5 6 7 8 9 10; do echo "{\"text\": \"a$i\", \"weight\": 1000000}"; done >weights.jsonl
cheap "prompts, weights" "$kvcal" calibrate whole -p weights.jsonl --dry-run --memory 1GiB -o n.json
{
  echo '{"messages": [{"role": "user", "content": "a"}'
  awk 'BEGIN { for (i = 0; i < 100000; ++i) print ",{\"role\":\"" (i % 2 ? "user" : "assistant") "\",\"content\":\"a\"}" }'
  echo ']}'
} | tr -d '\n' >messages.jsonl
cheap "prompts, messages" "$kvcal" prompts whole -p messages.jsonl

# What the program writes itself: statistics, scale files, recipes, and what doctor is given.
for size in '\377\377\377\177\0\0\0\0' '\0\0\0\0\0\0\0\1'; do
  { printf "$size"; tail -c +9 s.kvstats; } >b.kvstats
  for verb in stats validate report; do cheap "statistics, a length, $verb" "$kvcal" $verb b.kvstats; done
done
{ sed '$d' s.json; echo ', "layers2": ['; copies 3000000 '{},'; echo '{}]}'; } >b.json
for verb in validate report doctor "diff s.json"; do cheap "scale file, $verb" "$kvcal" $verb b.json; done
cheap "recipe" "$kvcal" plan whole --gpu H100 --recipe b.json
cheap "scale file, export" "$kvcal" export b.json --model whole --to vllm -o exported
copies 9000000 '(' >log.txt && cheap "doctor, a line" "$kvcal" doctor log.txt
yes 'WARNING (Worker_TP999) Using scaling factor 1.0' | head -c 9500000 >log.txt
cheap "doctor, lines" "$kvcal" doctor log.txt
copies 700000 'docker run x ' >log.txt && cheap "doctor, containers" "$kvcal" doctor log.txt
{ echo 'services: &a {image: vllm, x: [y, y, y, y, y, y, y, y]}' && echo 'b:' && yes ' - *a' | head -n 150000; } >compose.yml
cheap "doctor, aliases" "$kvcal" doctor compose.yml
awk 'BEGIN { for (i = 0; i < 200000; ++i) print "%TAG !t" i "! x:"; print "---\nservices: {a: {image: vllm/vllm-openai}}" }' >tags.yml
cheap "doctor, tags" "$kvcal" doctor tags.yml
mkdir adapter && copies 2000000 '"q",' | sed 's/^/{"peft_type": "LORA", "r": 2147483646, "target_modules": [/; s/$/"q"]}/' >adapter/adapter_config.json
cheap "adapter, doctor" "$kvcal" doctor adapter
cheap "adapter, fold" "$kvcal" fold whole --stats s.kvstats --adapter adapter -o folded
for device in /dev/zero pipe; do
  [ -e $device ] || mkfifo $device
  cheap "doctor, $device" "$kvcal" doctor $device
  cheap "validate, $device" "$kvcal" validate $device
  cheap "prompts, $device" "$kvcal" prompts whole -p $device
done
finish
