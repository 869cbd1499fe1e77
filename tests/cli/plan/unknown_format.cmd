sed 's/"model_type"/"quantization_config": {"quant_method": "hqq"}, "model_type"/' "$SOURCE/datasets/demo/natural/config.json" >config.json
kvcal plan config.json --gpu-memory 80GiB
kvcal plan config.json --gpu-memory 80GiB --weights 1MB | grep -c "^keep_bf16"
