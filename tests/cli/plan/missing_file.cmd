kvcal plan nowhere --gpu-memory 80GiB
