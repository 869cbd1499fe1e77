kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --allowance 100MiB --weights 1GiB | grep "^weights_do"
