# An MTP layer under the number behind the last one: its scales under the name that vLLM's loader of it takes.
sh "$SOURCE/tests/cli/mtp_model.sh" glm4_moe
kvcal calibrate model --prompts prompts.jsonl -o without.json --policy absmax --no-sanity 2>&1 >/dev/null | grep -E "MTP|not used"
kvcal calibrate model --prompts prompts.jsonl -o with.json --mtp --policy absmax --no-sanity -v 2>/dev/null | grep "^ *mtp"
kvcal diff without.json with.json | head -2
kvcal validate with.json --model model | tail -1
kvcal export with.json --model model --to vllm -o served | grep "MTP"
COLUMNS=120 kvcal validate served | grep self_attn
tr , "\n" <served/model.safetensors.index.json | grep -o "layers.3.*_scale"
kvcal export with.json --model model --to sglang -o other
sed 's/"num_nextn_predict_layers": 1/"num_nextn_predict_layers": 2/' "$SOURCE/tests/arch/golden/glm4_moe/config.json" >model/config.json
kvcal calibrate model --prompts prompts.jsonl --mtp -q
# exits 2
