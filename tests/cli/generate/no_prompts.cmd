kvcal generate "$SOURCE/datasets/demo/natural"
