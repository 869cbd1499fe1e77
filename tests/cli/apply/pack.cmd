# A pack is applied to the checkpoint that it is for, gives the bytes of an export, and is refused for what has changed.
set -- "$SOURCE/datasets/demo/stressed" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2
kvcal calibrate "$@" -q -o s.json --stats run.kvstats
kvcal evaluate "$@" --scales s.json --choose fp8_e4m3,nvfp4,fp8_e4m3:nvfp4 --max-kl 1 -q -o e.json
model=$SOURCE/datasets/demo/stressed
kvcal export s.json --model "$model" --to pack --recipe e.json --include run.kvstats -o pack
cut -c67- pack/SHA256SUMS
(cd pack && sha256sum -c --quiet SHA256SUMS) && cmp pack/kv-cache-scales.json s.json && cmp pack/evaluation.json e.json
kvcal validate pack --model "$model" | tail -1
for scales in pack s.json; do kvcal evaluate "$@" --scales $scales -q -o of-$scales; done && cmp of-pack of-s.json && kvcal diff pack s.json
kvcal apply pack "$model" --to modelopt -o applied | sed -n '1p;/do not start/p'
kvcal export s.json --model "$model" --to modelopt --recipe e.json -o exported >text
diff -r applied exported && echo the same bytes
cp -rL "$model" place && chmod -R u+w place
kvcal apply pack place --in-place --to modelopt >text && cmp place/model-kv-scales.safetensors exported/model-kv-scales.safetensors
kvcal export --undo --model place
# The same pack for vLLM, which has no such mixture; for a file; for another model; changed; no pack.
kvcal apply pack "$model" -o no || echo exit $?
kvcal apply pack "$model" --to json -o no || echo exit $?
kvcal apply pack "$SOURCE/datasets/demo/natural" -o no || echo exit $?
sed -i 's/"rms_norm_eps": .*/"rms_norm_eps": 0.5,/' place/config.json && kvcal apply pack place -o no || echo exit $?
cp -r pack changed && sed -i 's/"policy": "/"policy": "a/' changed/kv-cache-scales.json
kvcal apply changed "$model" -o no || echo exit $?
kvcal validate changed || echo exit $?
cp -r pack unlisted && sed -i '/kv-cache-scales/d' unlisted/SHA256SUMS && kvcal apply unlisted "$model" -o no || echo exit $?
kvcal apply "$model" "$model" -o no || echo exit $?
kvcal export s.json --model "$model" --to pack --include e.json --include e.json -o no || echo exit $?
kvcal export s.json --model "$SOURCE/datasets/demo/natural" --to pack -o no || echo exit $?
kvcal export s.json --model "$model" --to pack -o place --force || echo exit $?
kvcal export s.json --model "$model" --include e.json -o no || echo exit $?
# A recipe says what is kept in 16 bits; without one whoever applies the pack does.
kvcal apply pack "$model" --to modelopt --skip-layers 3 -o no || echo exit $?
sed '0,/"verdict"/ { s/"fp8": "[a-z]*"/"fp8": "keep16"/; s/"verdict": "[a-z]*"/"verdict": "inadequate"/ }' s.json >bad.json
kvcal export bad.json --model "$model" --to pack -o bad | tail -1
kvcal apply bad "$model" -o no || echo exit $?
kvcal apply bad "$model" --skip-layers keep16 -o kept | grep serve.kept
kvcal apply bad "$model" --allow-keep16 -o written | grep serve.written
# The evaluation beside the scale file goes with it, and the page of both; one of other scales stays where it is.
mkdir beside && cp s.json beside/s.json && cp e.json beside/evaluation.json
kvcal export beside/s.json --model "$model" --to pack -o taken | sed '/^$/,$d'
ls taken && cmp taken/evaluation.json e.json
kvcal report s.json --evaluation e.json --evidence -q -o page.html && cmp taken/report.html page.html && echo the same page
kvcal validate taken --model "$model" | tail -1
kvcal apply taken "$model" -o plain >text && kvcal export s.json --model "$model" -o plainly >text && diff -r plain plainly && echo the same bytes
cp bad.json beside/bad.json && kvcal export beside/bad.json --model "$model" --to pack --include run.kvstats -o other | sed '/^$/,$d'
ls other
kvcal export other --model "$model" --to pack -o again | sed -n 2p
kvcal export bad.json --model "$model" --to pack --include beside/evaluation.json -o no || echo exit $?
# A page that somebody edited, one of other files, and a publisher's own.
sums() { (cd "$1" && sha256sum *.html *.json >SHA256SUMS); }
cp -r taken edited && sed -i 's/predictions/answers/' edited/report.html && sums edited && kvcal validate edited | grep -A1 A08
cp -r taken foreign && cp bad.json foreign/kv-cache-scales.json && sums foreign && kvcal validate foreign | grep A08
cp -r taken torn && sed -i 's/base64,/base64,-/' torn/report.html && sums torn && kvcal validate torn | grep A08
echo '<!DOCTYPE html><title>kvcal report</title>' >report.html
kvcal export beside/s.json --model "$model" --to pack --include report.html -o own >text && cmp own/report.html report.html && kvcal validate own | tail -1
# Files that never end, or lie elsewhere; a download of the Hub is links, too.
cp -r pack endless && mkfifo endless/x && echo "$(printf %064d 0)  x" >>endless/SHA256SUMS
timeout 20 kvcal validate endless || echo exit $?
ln -sf /dev/zero endless/x && timeout 20 kvcal apply endless "$model" -o no || echo exit $?
mkdir -p models--o--pack/blobs models--o--pack/snapshots/1 && cp pack/* models--o--pack/blobs
for f in pack/*; do ln -s "../../blobs/${f#*/}" models--o--pack/snapshots/1; done
kvcal validate models--o--pack/snapshots/1 | tail -1
# Nothing that can be packed; scales from a pipe, which gives them once.
mkdir folder
for f in folder folder/ missing; do kvcal export s.json --model "$model" --to pack --include $f -o no || echo exit $?; done
cat s.json | kvcal export /dev/stdin --model "$model" --to pack -o piped | head -2
cmp piped/kv-cache-scales.json s.json
# What a publisher keeps beside a pack is no fault of it, and is not deleted with an earlier one; nor is the model.
mkdir piped/.git && echo text >piped/README.md && kvcal validate piped | tail -1
kvcal export s.json --model "$model" --to pack -o piped --force || echo exit $?
rmdir piped/.git && kvcal export s.json --model "$model" --to pack -o piped --force || echo exit $?
rm piped/README.md && cp -rL "$model" piped/model && kvcal export s.json --model piped/model --to pack -o piped --force || echo exit $?
ls piped
# A pack stands for its scale file, and is not made anew of itself.
kvcal export pack --model "$model" --to pack -o pack --force || echo exit $?
kvcal export s.json --model "$model" --to pack -o pack --force && ls pack
ls -d no 2>/dev/null || echo nothing written
