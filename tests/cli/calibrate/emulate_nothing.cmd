kvcal calibrate "$SOURCE/datasets/demo/natural" --emulate-activation-quant
# exits 2
