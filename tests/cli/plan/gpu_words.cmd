# Whole words of a GPU's name count.
M=$SOURCE/datasets/demo/natural
for gpu in H1000 H100x 'RTX 50900' L4000 A10000 B2000 MI3000X xyz; do
  kvcal plan "$M" --gpu "$gpu" >out 2>&1
  echo "$? $(cat out)"
done
for gpu in h100 H100-SXM5 H100SXM5 NVIDIA_H100_80GB_HBM3 'NVIDIA A100-SXM4-80GB' rtx5090 'GeForce RTX 5090' L40S A10G RTX6000Ada \
  MI300X 'AMD Instinct MI300X'; do
  kvcal plan "$M" --gpu "$gpu" | sed -n "s/^machine: *//p"
done
kvcal plan "$M" --gpu MI355X 2>&1
kvcal doctor --gpu H1000 --command 'vllm serve x' 2>&1
