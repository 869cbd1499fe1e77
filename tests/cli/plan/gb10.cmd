# 122,548 MiB, of which a server takes 85 % where the system needs some.
kvcal plan "$SOURCE/datasets/demo/natural" --gpu 'NVIDIA GB10' --allowance 1GiB | grep -E '^(machine|a GPU):|utilization:'
kvcal plan "$SOURCE/datasets/demo/natural" --gpu GH200 --json | grep -E '"(gpu_memory|unified_memory|utilization)":'
