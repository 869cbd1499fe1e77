# 1,004,944 parameters in 16 bits; four GPUs in two groups of two: one head and half of the state on each.
cp "$SOURCE/datasets/demo/natural/config.json" .
kvcal plan config.json --gpu-memory 1GB --gpus 4 --tp 2 --allowance 100MB | head -n 4
