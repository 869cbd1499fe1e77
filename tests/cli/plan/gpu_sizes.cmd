# The size in a name is the GPU's, but of "GH200 480GB", and chooses among the known ones; a slice has its own.
for gpu in 'NVIDIA GH200 480GB' 'NVIDIA GH200 144G HBM3e' 'NVIDIA H100 80GB HBM3 MIG 3g.40gb' 'H100 MIG 1g.10gb' 'H100 NVL' 'a100 80gb' \
  H20 NVIDIA-H20-3e L20 'RTX PRO 6000 Blackwell' 'GTX 1080' V100-SXM2-32GB 'H100 480GB' 'H200 MIG 1g.18gb' L2 P100 'GTX 1080 Ti' \
  'RTX 4090 Laptop GPU' A10-12Q A1000 'RXT 5090'; do
  kvcal plan "$SOURCE/datasets/demo/natural" --gpu "$gpu" 2>&1 | sed -n "s/^machine: *1 x \([^,]*\),.*/$gpu: \1/p;s/^kvcal: error: --gpu//p"
done
