kvcal calibrate "$SOURCE/datasets/demo/natural" --emulate-activation-quant
