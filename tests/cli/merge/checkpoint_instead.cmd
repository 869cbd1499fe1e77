kvcal merge "$SOURCE/datasets/demo/natural/model.safetensors" -o out.kvstats
# exits 2
