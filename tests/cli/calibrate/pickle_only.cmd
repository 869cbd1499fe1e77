cp -r "$SOURCE/datasets/demo/natural" model
mv model/model.safetensors model/pytorch_model.bin
kvcal calibrate model --prompts "$SOURCE/datasets/demo/prompts.jsonl"
# exits 2
