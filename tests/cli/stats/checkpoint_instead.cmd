kvcal stats "$SOURCE/datasets/demo/natural/model.safetensors"
# exits 2
