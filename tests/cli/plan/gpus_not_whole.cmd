kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --gpus 3 --tp 2
