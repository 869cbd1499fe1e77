# The config is understood, the weights that are there cannot be read.
cp -r "$SOURCE/datasets/demo/natural" model
mv model/model.safetensors model/pytorch_model.bin
kvcal inspect model | head -n 3
