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
# The size in a name is the GPU's, but of "GH200 480GB", and chooses among the known ones; a slice has its own.
for gpu in 'NVIDIA GH200 480GB' 'NVIDIA GH200 144G HBM3e' 'NVIDIA H100 80GB HBM3 MIG 3g.40gb' 'H100 MIG 1g.10gb' 'H100 NVL' 'a100 80gb' \
  H20 NVIDIA-H20-3e L20 'RTX PRO 6000 Blackwell' 'GTX 1080' V100-SXM2-32GB 'H100 480GB' 'H200 MIG 1g.18gb' L2 P100 'GTX 1080 Ti' \
  'RTX 4090 Laptop GPU' A10-12Q A1000 GB300 'RXT 5090'; do
  kvcal plan "$M" --gpu "$gpu" 2>&1 | sed -n "s/^machine: *1 x \([^,]*\),.*/$gpu: \1/p;s/^kvcal: error: --gpu//p"
done
# Below Ampere, of 2025 and 2026, and with memory that the system shares.
for gpu in T4 'RTX 2080 Ti' 'RTX A6000' RTX5070Ti 'DGX Spark' 'NVIDIA GB300' MI325X MI355X 'RX 7900 XTX' 'Jetson AGX Orin' 'Quadro RTX 8000' A2000; do
  kvcal plan "$M" --gpu "$gpu" 2>&1 | sed -n "s/^machine: *1 x \([^,]*\),.*/$gpu: \1/p;s/^kvcal: error: --gpu//p"
done
# An NVFP4 cache is for NVIDIA from Ampere on, and vLLM has no cache of E4M3 before Ampere; older kernels were not looked into.
for gpu in H200 B200 MI355X 'RTX 2080 Ti'; do
  kvcal plan "$M" --gpu "$gpu" --context 2048 --concurrency 4000 | grep -E '^(a token|use_fp8|keep_bf16|load_does_not_fit)'
done
# Memory that is not known is said beside the name; of the Jetsons Thor has no NVFP4.
for gpu in 'Jetson Thor' sm_110 'Jetson Orin'; do
  kvcal plan "$M" --gpu "$gpu" --gpu-memory 32GiB | grep -E '^(machine|a token)'
done
kvcal plan "$M" --gpu H100 --gpu-memory 32GiB 2>&1
kvcal doctor --gpu H1000 --command 'vllm serve x' 2>&1
# exits 2
