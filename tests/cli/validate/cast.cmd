# Exports as ModelOpt's fp8_cast leaves them, an FP8 cache at 1.0: is it safe, layer by layer? What statistics say, and what
# evaluate measures of each layer alone at 1.0 and at its scales.
prompts="--prompts $SOURCE/datasets/demo/prompts.jsonl"
# Values of layer 3 are 256 times as large, and its output weights undo that: bfloat16 loses nothing.
cp -rL "$SOURCE/datasets/demo/natural" clipped && chmod -R u+w clipped
cat >times.py <<'EOF'
import array, json, struct
with open("clipped/model.safetensors", "r+b") as file:
    data = struct.unpack("<Q", file.read(8))[0]
    header = json.loads(file.read(data))
    for name, exponent in ("v_proj", 8), ("o_proj", -8):
        begin, end = header[f"model.layers.3.self_attn.{name}.weight"]["data_offsets"]
        file.seek(8 + data + begin)
        words = array.array("H", file.read(end - begin))
        for i, word in enumerate(words):
            if word & 0x7F80 > 1024:
                words[i] = word + exponent * 128
        file.seek(8 + data + begin)
        file.write(words.tobytes())
EOF
python3 times.py
cat >worse.py <<'EOF'
import json, sys
at_one, scaled = ({layer["index"]: layer["kl"] for layer in json.load(open(name))["layers"]} for name in sys.argv[1:])
print("by evaluate 1.0 is worse in layers", [layer for layer in at_one if at_one[layer] > 2 * scaled[layer]])
EOF
for model in "$SOURCE/datasets/demo/natural" "$SOURCE/datasets/demo/stressed" clipped; do
  cast=$(basename "$model")-cast
  echo "--- $cast"
  cp -rL "$model" "$cast" && chmod -R u+w "$cast"
  sed -i 's/^}$/,"quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["*"], "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}}}/' "$cast/config.json"
  kvcal calibrate "$cast" --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q -o s.json --stats s.kvstats --force
  kvcal validate "$cast" --stats s.kvstats >found && echo safe || echo "exit $?"
  grep -e '^[a-z]* [FS][0-9]' -e '^[0-9]' found
  for scales in "" "--scales s.json"; do
    kvcal evaluate "$cast" --prompts "$SOURCE/datasets/demo/questions.jsonl" --max-prompts 4 --per-layer $scales -q -o "e${scales:+s}.json" --force
  done
  python3 worse.py e.json es.json
  # The same where 1.0 is written out, and in a pack.
  sed 's/"scale": [0-9][0-9.e-]*/"scale": 1.0/' s.json >ones.json
  kvcal export ones.json --model "$cast" --to modelopt -o "$cast-ones" >text
  kvcal validate "$cast-ones" --stats s.kvstats | grep -o -e '^[a-z]* S\(14\|16\|2[78]\) [^:]*'
  kvcal export s.json --model "$cast" --to pack -o "$cast-pack" >text
  kvcal validate "$cast-pack" | grep S27 || echo the pack says nothing of 1.0
done
# A pack that somebody edited.
echo >>clipped-cast-pack/kv-cache-scales.json
kvcal validate clipped-cast-pack || echo "exit $?"
