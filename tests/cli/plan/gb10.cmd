# 122,548 MiB, of which a server takes 85 % where the system needs some.
kvcal plan "$SOURCE/datasets/demo/natural" --gpu 'NVIDIA GB10' --allowance 1GiB | grep -E '^(machine|a GPU):|utilization:'
kvcal plan "$SOURCE/datasets/demo/natural" --gpu GH200 --json | grep -E '"(gpu_memory|unified_memory|utilization)":'
# Sizes in the name, of which tools print a little less.
for gpu in NVIDIA_A100-SXM4-80GB 'A100 40GB' NVIDIA_H100_80GB_HBM3 'NVIDIA GB200' 'B300 288GB' 'GB10 128GB'; do
  kvcal plan "$SOURCE/datasets/demo/natural" --gpu "$gpu" | grep '^machine:'
done
