kvcal inspect "$SOURCE/datasets/demo/natural" --json
