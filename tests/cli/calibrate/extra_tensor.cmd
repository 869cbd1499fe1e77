# Two tensors more at the end of the file: one that a rule skips, one that none names.
cp -r "$SOURCE/datasets/demo/natural" model
file=model/model.safetensors
header=$(od -An -tu8 -N8 $file | tr -d " ")
more='"mtp.fc.weight":{"dtype":"BF16","shape":[1],"data_offsets":[2009888,2009890]},"surprise":{"dtype":"BF16","shape":[1],"data_offsets":[2009890,2009892]},'
length=$((header + ${#more}))
{ printf "\\$(printf %o $((length % 256)))\\$(printf %o $((length / 256)))\0\0\0\0\0\0"
  tail -c +9 $file | head -c $header | sed "s/^{/{$more/"
  tail -c +$((9 + header)) $file
  printf "\0\0\0\0"; } >longer
mv longer $file
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 1 -q -v 2>&1 | grep tensor
