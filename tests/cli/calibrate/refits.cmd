# Calibrates further checkpoints with the same prompts, from the first layer that differs, to the bytes of a run of each alone.
demo=$SOURCE/datasets/demo
run() { kvcal calibrate "$1" --prompts p.jsonl -q -o "$2" --stats "$2.kvstats" --force $3; }
head -3 "$demo/prompts.jsonl" >p.jsonl
cp -rL "$demo/natural" head && chmod -R u+w head
run "$demo/natural" natural.json; run "$demo/stressed" stressed.json
# The last norm is behind all layers: the same scales, of other weights.
cat >change.py <<'END'
import json, sys
path, name = sys.argv[1:]
with open(path, "r+b") as file:
    length = int.from_bytes(file.read(8), "little")
    begin, end = json.loads(file.read(length))[name]["data_offsets"]
    file.seek(8 + length + begin)
    content = file.read(end - begin)
    file.seek(8 + length + begin)
    file.write(content[-2:] + content[:-2])
END
python3 change.py head/model.safetensors model.norm.weight && run head head.json
mkfifo refits results
"$KVCAL" calibrate "$demo/natural" --prompts p.jsonl --refits refits --json -q -o s.json --stats s.kvstats >results &
exec 4<results 3>refits
result() {
  while IFS= read -r line <&4 && [ "$line" != '}' ]; do echo "$line"; done | grep -o 'layers_kept.*[0-9]'
  cmp s.json "$1.json" && cmp s.kvstats "$1.json.kvstats" && echo "as $1"
}
result natural
for next in natural stressed natural head; do
  case $next in head) echo head >&3 ;; *) echo "$demo/$next" >&3 ;; esac
  result $next
done
exec 3>&-; wait $!; echo "exit $?"
echo '--- a list in a file, prompts from a pipe; a folder that is none ends it'
printf '%s\n\nnowhere\n' "$demo/stressed" >list
kvcal calibrate "$demo/natural" --prompts - --refits list -q -o t.json <p.jsonl; echo "exit $?"; cmp t.json stressed.json
echo '--- an output that is there already'
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits list -q -o t.json; echo "exit $?"
echo '--- not with'
for option in --if-changed --dry-run --resume --mpi '--shard 1/2 --stats x' '--until-stable 1' '--evaluate e.json' --check '-o -'; do
  kvcal calibrate "$demo/natural" --prompts p.jsonl --refits list $option 2>&1 | grep error
done
kvcal calibrate "$demo/natural" --prompts - --refits - -o u.json </dev/null 2>&1 | grep error
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits missing -o u.json 2>&1 | grep error
for list in '' "$demo"; do kvcal calibrate "$demo/natural" --prompts p.jsonl --refits "$list" -q -o u.json 2>&1 | sed "s|$demo|DEMO|"; done
echo '--- the list stays'
cp list same
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits same -q -o same --force; echo "exit $?"
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits same -q -o u.json --stats ./same --force; echo "exit $?"
cmp same list
echo '--- lines that end as on Windows; no layer to run, and so no progress'
printf '%s\r\n\r\n' "$demo/natural" >list
kvcal calibrate "$demo/natural" --prompts p.jsonl --refits list -q -o u.json --progress json 2>&1 | grep -o '"layer":.*"done":1.0'
echo '--- what decides numbers besides the bytes of weights'
cat >make.py <<'END'
import json, os, random, shutil, sys
random.seed(1)
def save(folder, add, drop="", files={}):
    shutil.copytree(sys.argv[1], folder, copy_function=shutil.copyfile)
    with open(folder + "/model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    for name, (dtype, shape, content) in add.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    order = sorted((n for n in header if n not in (drop, "__metadata__")), key=lambda n: header[n]["data_offsets"])
    kept = b""
    for name in order:
        begin, end = header[name]["data_offsets"]
        header[name]["data_offsets"] = [len(kept), len(kept) + end - begin]
        kept += data[begin:end]
    text = json.dumps({name: header[name] for name in order}).encode()
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + kept)
    for name, content in files.items():
        with open(folder + "/" + name, "w") as file:
            json.dump(content, file)
layer = "model.layers.3.self_attn."
gptq = {
    "qweight": ("I32", [12, 128], random.randbytes(12 * 128 * 4)),
    "qzeros": ("I32", [6, 16], random.randbytes(6 * 16 * 4)),
    "scales": ("F16", [6, 128], b"\x00\x24" * 6 * 128),
    "g_idx": ("I32", [96], b"".join((i // 16).to_bytes(4, "little") for i in range(96)))}
for name in ("gptq", "gptq_v2"):
    side = {"bits": 4, "group_size": 16, "desc_act": False, "sym": False, "quant_method": "gptq", "checkpoint_format": name}
    save(name, {layer + "k_proj." + n: t for n, t in gptq.items()}, layer + "k_proj.weight", {"quantize_config.json": side})
one, two = (("BF16", [64], value * 64) for value in (b"\x80\x3f", b"\x00\x40"))
save("one", {layer + "k_norm.weight": one, layer + "k_norm.weights": two})
save("two", {layer + "k_norm.a": one, layer + "k_norm.weight": two})
with open(sys.argv[1] + "/tokenizer_config.json") as file:
    config = json.load(file)
save("roles", {})
config["chat_template"] = "{{ " + json.dumps(sys.argv[2] + "\n") + " }}"
save("no_roles", {}, "", {"tokenizer_config.json": config})
END
echo '{"messages": [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Good day"}]}' >chat.jsonl
chat=$(printf '<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\nGood day<|im_end|>')
python3 make.py "$demo/natural" "$chat"
cp chat.jsonl p.jsonl
for pair in 'gptq gptq_v2' 'one two' 'roles no_roles'; do
  set -- $pair
  echo "$2" >list
  run "$1" first.json --no-sanity 2>errors && run "$2" alone.json --no-sanity 2>errors && cmp first.json.kvstats alone.json.kvstats | grep -o differ
  "$KVCAL" calibrate "$1" --prompts p.jsonl --refits list --no-sanity --json -q -o s.json --stats s.kvstats --force 2>errors | grep -o 'layers_kept.*[0-9]'
  cmp s.json alone.json && cmp s.kvstats alone.json.kvstats && echo "as $2 alone"
done
echo '--- embeddings that were replaced meanwhile'
cp -rL "$SOURCE/tests/arch/embeddings/gemma3_vl" pictures && chmod -R u+w pictures
golden=$SOURCE/tests/arch/golden/gemma3_vl
"$KVCAL" calibrate "$golden" --prompts pictures/*.jsonl --refits refits --no-sanity --json -q -o s.json --force >results 2>errors &
exec 4<results 3>refits
result() { while IFS= read -r line <&4 && [ "$line" != '}' ]; do :; done; }
result; echo "$golden" >&3; result
cp pictures/picture.safetensors new && mv new pictures/picture.safetensors
echo "$golden" >&3; exec 3>&-; wait $!; echo "exit $?"; cat errors
ls
