# What ids show: too few prompts, the same ones, beginnings in common, and variants that are equal.
ids() { for i in $2; do echo "{\"input_ids\": [$1$i, $((i * 7 % 90)), $((i * i % 89)), $((i * 11 % 83))]}"; done >$3.jsonl; }
model=$SOURCE/tests/arch/golden/qwen3
show() {
  name=$1
  shift
  kvcal evaluate "$model" --prompts "$name.jsonl" -o "$name.json" --force "$@" >told 2>&1
  code=$?
  sed -n '/^shown/,$p' told
  echo "exit $code"
}
twelve="1 2 3 4 5 6 7 8 9 10 11 12"
ids "" 1 one && show one --max-kl 100
ids "" "1 2" two && show two --max-kl 100
ids "" "$twelve" twelve && show twelve --max-kl 100 --min-agreement 0 && show twelve --max-kl 0 && show twelve --min-agreement 1
ids "80, 81, " "$twelve" system && show system
ids "80, 81, 82, 83, 84, 85, " "1 2" talk && cat twelve.jsonl >>talk.jsonl && show talk
echo '{"input_ids": [1, 2, 3]}' >same.jsonl
for i in 1 2 3 4 5 6 7; do cat same.jsonl; done >again.jsonl && show again
for i in $twelve; do echo "{\"input_ids\": [$i]}"; done >short.jsonl && show short --min-agreement 0.99
# Scales that change nothing, little, and more.
kvcal calibrate "$model" --prompts twelve.jsonl -q --no-sanity -o s.json && show twelve --scales s.json
kvcal calibrate "$model" --prompts twelve.jsonl -q --no-sanity --policy absmax -o a.json && show twelve --scales a.json
sed 's/"scale": [0-9][0-9.e-]*/"scale": 64.0/' a.json >b.json && show twelve --scales b.json && show twelve --scales a.json b.json --max-kl 0.001
show twelve --scales a.json b.json --max-kl 0.0009
kvcal evaluate "$model" --prompts twelve.jsonl --scales a.json -o close.json --max-kl 0.00118 --min-agreement 1 2>&1 | sed -n 's/.*not decided: //p'
kvcal evaluate "$model" --prompts twelve.jsonl --scales a.json -o cut.json --min-agreement 0.9999 2>&1 | sed -n 's/.*not decided: //p'
show twelve --scales b.json --max-kl 0.0005
sed -n 's/^  kvcal evaluate/kvcal evaluate/p' told >next.sh
sh next.sh 2>/dev/null | sed -n '/^recipe/,/^reference/p'
