# An output that exists, and one that the model's folder would hold or be held by.
mkdir -p deep/model && cp "$SOURCE"/datasets/demo/stressed/* deep/model && mkdir there && touch there/file
kvcal calibrate deep/model --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 6 -q -o s.json --stats run.kvstats
for out in there deep/model deep/model/out deep . deep/model/../model/ nowhere/out; do
  kvcal fold deep/model --stats run.kvstats -o $out || echo exit $?
done
ls . deep deep/model there
mkdir out.kvcal-partial && echo other >out.kvcal-partial/change.txt
kvcal fold deep/model --stats run.kvstats -o out || echo exit $?
