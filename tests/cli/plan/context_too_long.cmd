kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --context 4096
