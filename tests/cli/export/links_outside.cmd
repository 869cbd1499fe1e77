# Links that lead out of the model's folder are named, but for those of the Hub's cache.
cp -r "$SOURCE/datasets/demo/natural" m && chmod -R u+w m
kvcal calibrate m --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json
mkdir elsewhere && echo secret >elsewhere/secret && mv m/model.safetensors elsewhere && ln -s ../elsewhere/model.safetensors m
ln -s ../elsewhere/secret m/notes.txt && ln -s ../elsewhere m/more && ln -s tokenizer.json m/inside.json
kvcal export s.json --model m -o out | grep outside
kvcal export s.json --model m -o copied --copy | grep outside
kvcal export s.json --model m -o json --json | grep -A 4 from_outside
mkdir -p hub/snapshots/abc hub/blobs && for file in config.json tokenizer.json tokenizer_config.json generation_config.json model.safetensors; do
  cp -L m/$file hub/blobs/$file && ln -s ../../blobs/$file hub/snapshots/abc/$file
done
kvcal export s.json --model hub/snapshots/abc -o hubbed | grep outside
ln -s ../../../elsewhere/secret hub/snapshots/abc/notes.txt
kvcal export s.json --model hub/snapshots/abc -o hubbed2 | grep outside
