# The first number of model.layers.3.self_attn.v_proj.weight becomes NaN.
cp -r "$SOURCE/datasets/demo/natural" model
file=model/model.safetensors
header=$(od -An -tu8 -N8 $file | tr -d " ")
start=$(grep -ao '"model.layers.3.self_attn.v_proj.weight":[^}]*' $file | grep -o '[0-9]*,[0-9]*]$' | cut -d, -f1)
printf "\300\177" | dd of=$file bs=1 seek=$((8 + header + start)) conv=notrunc status=none
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" -q
ls
