kvcal plan "$SOURCE/datasets/demo/natural" --gpu B300
