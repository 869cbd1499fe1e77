kvcal calibrate "$SOURCE/datasets/demo/natural" --until-stable -1
# exits 2
