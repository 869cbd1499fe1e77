# Names, ids and texts of strangers steer no terminal, begin no line and give a CI system no command, whichever verb
# shows them: on both streams there is no control character but line breaks, nothing invisible, no '::' that begins a
# line, no '##['.
. "$(dirname "$0")/common.sh"

esc=$(printf '\033') c1=$(printf '\302\233') bidi=$(printf '\342\200\256') zero=$(printf '\342\200\213')
evil="${esc}]0;owned${esc}[2J${c1}31m${bidi}txet${zero}##[error]x
::error::pwn
  ::add-mask::s"
json_evil='\u001b]0;owned\u001b[2J\u009b31m\u202etxet\u200b##[error]x\n::error::pwn\n  ::add-mask::s'
model="m $evil"
mkdir "$model" && cp "$demo"/* "$model"/
printf '{"id":"%s","text":"What is 7 * 8?%s","tags":["%s"]}\n' "$json_evil" "$json_evil" "$json_evil" >"p $evil.jsonl"
for i in 1 2 3; do printf '{"id":"p%s","text":"What is %s * 8?"}\n' $i $i; done >>"p $evil.jsonl"

# safe CODE COMMAND...: whatever it says, it says it harmlessly.
n_said=0
safe() {
  code=$1
  shift
  "$@" >out.txt 2>err.txt
  actual=$?
  [ $actual -eq "$code" ] || complain "$2 $3: exit code $actual, expected $code: $(cat -v err.txt | head -n 5)"
  cat out.txt err.txt >said.txt
  LC_ALL=C grep -qa "$(printf '[\001-\011\013-\037\177]')" said.txt && complain "$2 $3: a control character: $(cat -v said.txt)"
  LC_ALL=C grep -qaE "$(printf '\302[\200-\237]|\342\200[\213-\217\250-\256]')" said.txt && complain "$2 $3: an invisible one: $(cat -v said.txt)"
  grep -qaE '^[[:space:]]*::(error|add-mask)::' said.txt && complain "$2 $3: begins a command: $(cat -v said.txt)"
  grep -qaF '##[' said.txt && complain "$2 $3: a command in a line: $(cat -v said.txt)"
  n_said=$((n_said + $(grep -ca 'owned' said.txt)))
}

prompts="p $evil.jsonl" scales="s $evil.json" stats="s $evil.kvstats" out="o $evil"
safe 0 $kvcal inspect "$model"
safe 0 $kvcal plan "$model" --gpu H100
safe 0 $kvcal prompts "$model" --prompts "$prompts" --ids
safe 0 $kvcal prompts "$model" --prompts "$prompts" --json
safe 0 $kvcal generate "$model" --prompts "$prompts" --max-new-tokens 4
safe 0 $kvcal generate "$model" --prompts "$prompts" --max-new-tokens 4 --json
safe 0 $kvcal calibrate "$model" --prompts "$prompts" -o "$scales" --stats "$stats" -v --no-sanity
safe 0 $kvcal calibrate "$model" --prompts "$prompts" -o "$scales" --stats "$stats" --if-changed --no-sanity
safe 2 $kvcal calibrate "$model" --prompts "$prompts" -o "$scales"
safe 0 $kvcal stats "$stats"
safe 0 $kvcal stats "$stats" --json
safe 0 $kvcal merge "$stats" -o "merged $evil.kvstats"
safe 0 $kvcal solve "$stats" -o "solved $evil.json"
safe 0 $kvcal evaluate "$model" --prompts "$prompts" --scales "$scales" -o "e $evil.json" --generate --max-new-tokens 4
safe 1 $kvcal evaluate "$model" --prompts "$prompts" --scales "$scales" -o "e $evil.json" --force --json --max-kl 0
safe 0 $kvcal export "$scales" --model "$model" -o "$out"
safe 0 $kvcal export "$scales" --model "$model" -o "$out.2" --json
safe 0 $kvcal fold "$model" --stats "$stats" -o "f $evil" --force --no-check
safe 0 $kvcal report "$stats" -o "r $evil.html"
safe 0 $kvcal diff "$scales" "solved $evil.json"
safe 0 $kvcal drift "$scales" --stats "$stats"
safe 0 $kvcal drift "$scales" --stats "$stats" --format prometheus
for format in text json sarif; do
  safe 0 $kvcal validate "$scales" --model "$model" --format $format
  safe 0 $kvcal validate "$out" --format $format
done
safe 2 $kvcal "$evil"
safe 2 $kvcal inspect "$evil"
safe 2 $kvcal inspect --"$evil"
safe 2 $kvcal validate "$evil"

# A member that nobody knows; a place of a checkpoint; the form of annotations.
for_sed=$(printf '%s' "$json_evil" | sed 's/\\/&&/g')
sed "s/\"model\": {/&\"$for_sed\": 1,/" "$scales" >"bad $evil.json"
safe 1 $kvcal validate "bad $evil.json"
grep -q 'error A.. model\..*owned' out.txt || complain "the member is not named: $(cat -v out.txt)"
safe 1 $kvcal validate "bad $evil.json" --json
safe 1 $kvcal validate "bad $evil.json" --format github
[ "$(grep -c '^::error file=' out.txt)" -ge 1 ] || complain "no annotation: $(cat -v out.txt)"
[ "$(grep -c '^::' out.txt)" -eq "$(grep -c '^::[a-z]* file=bad %1B\|^::[a-z]* file=bad \\x1b' out.txt)" ] ||
  complain "an annotation of somebody else: $(cat -v out.txt)"
mv "bad $evil.json" ::error::x.json
safe 1 $kvcal validate ::error::x.json
grep -q '^\\x3a:error::x.json: NOT valid' out.txt || complain "the file is not named: $(cat -v out.txt)"

printf 'vLLM API server version 0.11.0\nnon-default args: {%s}\nUsing FP8 data type to store kv cache. %s\n' "$evil" "$evil" >"l $evil.log"
$kvcal doctor "l $evil.log" --model "$model" --command "vllm serve '$model' --kv-cache-dtype fp8" >/dev/null 2>&1
safe $? $kvcal doctor "l $evil.log" --model "$model" --command "vllm serve '$model' --kv-cache-dtype fp8"
[ "$n_said" -ge 20 ] || complain "the names are hardly shown: $n_said times"

# What a script is made of has no line breaks at all.
for kind in slurm mpi k8s; do
  image= && [ $kind != k8s ] || image='--image i'
  for name in "$(printf 'a\nEND\n)\ntouch PWNED\n#')" "$(printf 'a\rb')" "a${bidi}b"; do
    rm -rf "$name" && cp -r "$model" "$name"
    fails_with 2 "MODEL is" $kvcal launch "$name" --prompts "$source/datasets/demo/prompts.jsonl" --print $kind $image
    fails_with 2 "--out is" $kvcal launch "$demo" --prompts "$source/datasets/demo/prompts.jsonl" --print $kind $image -o "$name"
    fails_with 2 "--stats is" $kvcal launch "$demo" --prompts "$source/datasets/demo/prompts.jsonl" --print $kind $image --stats "$name"
    fails_with 2 "options for prompts" $kvcal launch "$demo" --prompts "$name" --print $kind $image
    [ $kind != k8s ] ||
      fails_with 2 "--image is" $kvcal launch "$demo" --prompts "$source/datasets/demo/prompts.jsonl" --print $kind --image "$name"
    [ ! -s out.txt ] || complain "a script all the same: $(cat -v out.txt)"
  done
done
finish
