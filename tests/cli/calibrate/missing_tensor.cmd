cp -r "$SOURCE/datasets/demo/natural" model
LC_ALL=C sed -i 's/layers.3.self_attn.k_proj.weight/layers.3.self_attn.k_proj.weighs/' model/model.safetensors
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q
# exits 2
