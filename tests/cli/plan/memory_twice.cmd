kvcal plan "$SOURCE/datasets/demo/natural" --gpu H100 --gpu-memory 80GiB
