# One file to carry: a copy of the program in an empty folder, without the source tree or an installation around it, runs
# every verb.
. "$(dirname "$0")/common.sh"

mkdir -p here/bin && cp "$kvcal" here/bin/ && small_model model || exit 1
alone=$scratch/here/bin/kvcal
run() {
  env -i PATH=/usr/bin:/bin "$alone" "$@" >out.txt 2>err.txt || complain "$*: exit code $?: $(cat err.txt)"
}

# The prompts in the program are the shipped file: same ids, same bytes of every result.
run prompts model --json
mv out.txt embedded.txt
run prompts model --prompts "$source/datasets/default.jsonl" --json
cmp -s out.txt embedded.txt || complain "the prompts in the program differ from datasets/default.jsonl"
run calibrate model --max-prompts 3 --max-length 64 -q -o s.json --stats s.kvstats
run calibrate model --prompts "$source/datasets/default.jsonl" --max-prompts 3 --max-length 64 -q -o given.json
cmp -s s.json given.json || complain "the prompts in the program give other scales than datasets/default.jsonl"

run validate s.json --model model
run validate s.kvstats
run export s.json --model model -o served
run validate served --scales s.json
run fold model --stats s.kvstats --force -o folded
run fold folded --undo -o unfolded
run report s.kvstats -o report.html
run solve s.kvstats -q --policy mse -o mse.json
run merge s.kvstats -o merged.kvstats
run diff s.json given.json
run stats s.kvstats
run inspect model
run plan model --gpu-memory 1GiB
run generate model --prompt Hello --max-new-tokens 2
run doctor model
run --help
[ -z "$(ls -A here | grep -v '^bin$')" ] || complain "left beside the program: $(ls -A here)"
finish
