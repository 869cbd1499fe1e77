kvcal inspect "$SOURCE/datasets/demo/natural" --identity
