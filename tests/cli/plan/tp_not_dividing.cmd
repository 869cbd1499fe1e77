kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --tp 3
