kvcal solve "$SOURCE/datasets/demo/natural/model.safetensors"
# exits 2
