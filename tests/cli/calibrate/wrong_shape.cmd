cp -r "$SOURCE/datasets/demo/natural" model
LC_ALL=C sed -i 's/\(layers.3.self_attn.k_proj.weight":{"dtype":"BF16","shape":\)\[128,96]/\1[96,128]/' model/model.safetensors
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q
# exits 2
