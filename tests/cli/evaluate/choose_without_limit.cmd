kvcal evaluate "$SOURCE/datasets/demo/natural" --choose fp8_e4m3
# exits 2
