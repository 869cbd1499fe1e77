kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 80
