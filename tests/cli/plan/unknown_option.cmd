kvcal plan --gpu-mem 80GiB .
