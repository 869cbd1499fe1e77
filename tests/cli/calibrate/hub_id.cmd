# A model named as on the Hub: from the local cache, by refs/main; else the command that downloads it.
export HF_HOME=$PWD/hf
unset HF_HUB_CACHE HUGGINGFACE_HUB_CACHE
set -- --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
kvcal calibrate tiny-org/Tiny-1.5 "$@"
repo=hf/hub/models--tiny-org--Tiny-1.5
mkdir -p $repo/refs $repo/snapshots/0ld $repo/snapshots/abc123 $repo/blobs
kvcal calibrate tiny-org/Tiny-1.5 "$@"
printf abc123 >$repo/refs/main
cp "$SOURCE"/datasets/demo/natural/config.json $repo/snapshots/abc123/
kvcal calibrate tiny-org/Tiny-1.5 "$@"
for file in "$SOURCE"/datasets/demo/natural/*; do
  cp "$file" $repo/blobs/ && ln -sf ../../blobs/"${file##*/}" $repo/snapshots/abc123/
done
kvcal calibrate tiny-org/Tiny-1.5 "$@" && echo calibrated
kvcal calibrate "$@" tiny-org/Tiny-1.5 --force && echo 'the model last'
kvcal calibrate "$SOURCE/datasets/demo/natural" "$@" -o same.json && cmp kv-cache-scales.json same.json && echo 'the same bytes'
kvcal validate kv-cache-scales.json --model tiny-org/Tiny-1.5
kvcal export kv-cache-scales.json --model tiny-org/Tiny-1.5 -o served >/dev/null && cat served/model.safetensors >/dev/null && echo exported
HF_HOME=/nowhere HF_HUB_CACHE=$PWD/hf/hub kvcal inspect tiny-org/Tiny-1.5 | head -n 1
unset HF_HOME
HOME=$PWD kvcal inspect tiny-org/Tiny-1.5
mkdir -p .cache && mv hf .cache/huggingface
HOME=$PWD kvcal inspect tiny-org/Tiny-1.5 | head -n 1
HOME=$PWD kvcal inspect tiny-org/Tiny-15
echo '--- a folder of this name comes first'
mkdir -p tiny-org/Tiny-1.5
HOME=$PWD kvcal inspect tiny-org/Tiny-1.5
echo '--- no names of models'
kvcal inspect ../nowhere; kvcal inspect a/b/c; kvcal inspect 'a b/c'; kvcal inspect org/../x
# exits 2
