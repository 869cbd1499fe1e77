# No scale is invented for a site without a value.
cp -r "$SOURCE/datasets/demo/natural" model
file=model/model.safetensors
header=$(od -An -tu8 -N8 $file | tr -d " ")
start=$(grep -ao '"model.layers.3.self_attn.k_proj.weight":[^}]*' $file | grep -o '[0-9]*,[0-9]*]$' | cut -d, -f1)
dd if=/dev/zero of=$file bs=1 seek=$((8 + header + start)) count=24576 conv=notrunc status=none
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q
ls
