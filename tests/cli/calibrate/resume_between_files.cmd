# Killed between its statistics and its scales: the same command goes on.
model=$SOURCE/datasets/demo/natural
run() { kvcal calibrate "$model" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json --stats s.kvstats --resume "$@"; }
run && mv s.json whole.json && cp s.kvstats whole.kvstats
run || echo exit $?
mkdir s.json.kvcal-resume
run && cmp s.json whole.json && cmp s.kvstats whole.kvstats && ls
# Of another run they stay.
rm s.json && kvcal calibrate "$model" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 3 -q -o other.json --stats s.kvstats --force
cp s.kvstats other.kvstats && mkdir s.json.kvcal-resume
run || echo exit $?
cmp s.kvstats other.kvstats
