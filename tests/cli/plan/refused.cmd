# What is refused, and the exit code.
M=$SOURCE/datasets/demo/natural
refused() {
  kvcal plan "$@" 2>&1
  echo "$?"
}
refused
refused --gpu-mem 80GiB .
refused nowhere --gpu-memory 80GiB
refused "$M"
refused "$M" --gpu H100 --gpu-memory 80GiB
refused "$M" --gpu-memory 80
refused "$M" --gpu-memory 1GiB --context 4096
refused "$M" --gpu-memory 1GiB --gpus 3 --tp 2
refused "$M" --gpu-memory 1GiB --tp 3
# A class that is not read.
echo '{"architectures": ["FooForCausalLM"], "model_type": "foo"}' >config.json
refused config.json --gpu-memory 1GiB
sed 's/Qwen3_5ForCausalLM/FooForCausalLM/' "$M/config.json" >config.json
refused config.json --gpu-memory 1GiB --mtp
# Weights of a hybrid do not follow from its config; an index tells them. A class that is refused for other than its caches is guessed, too.
sed 's/Qwen3_5ForCausalLM/Rnj1ForCausalLM/' "$M/config.json" >config.json
refused config.json --gpu-memory 1GiB
echo '{"metadata": {"total_size": 2097152}, "weight_map": {}}' >model.safetensors.index.json
refused config.json --gpu-memory 1GiB --allowance 100MiB --context 2048 | sed -n '1,2p;$p'
