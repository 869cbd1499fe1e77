cp -r "$SOURCE/datasets/demo/natural" model
truncate -s -100 model/model.safetensors
kvcal inspect model --json | grep -A 1 supported
