# A cache of the Hub: the snapshot is exported, changed in its place with its links kept, and changed back.
mkdir -p hub/blobs hub/refs hub/snapshots/abc && printf abc >hub/refs/main && cp "$SOURCE"/datasets/demo/natural/* hub/blobs
for file in hub/blobs/*; do ln -s ../../blobs/$(basename $file) hub/snapshots/abc/; done
kvcal calibrate hub/snapshots/abc --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 4 -q -o s.json
kvcal export s.json --model hub -o out | sed -n 1p
test -L out/model.safetensors || echo a file of its own
kvcal export s.json --model hub --in-place | sed -n 1,4p
readlink hub/snapshots/abc/model.safetensors hub/snapshots/abc/config.json.kvcal-original
kvcal export --undo --model hub
ls hub/snapshots/abc && readlink hub/snapshots/abc/config.json
