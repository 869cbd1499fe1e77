cp -r "$SOURCE/datasets/demo/natural" model
mv model/model.safetensors model/pytorch_model.bin
kvcal generate model --prompt x
# exits 2
