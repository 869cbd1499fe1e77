kvcal generate "$SOURCE/datasets/demo/natural" --prompt '' --raw
