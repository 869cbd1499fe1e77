sed 's/^{/{"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},/' "$SOURCE/datasets/demo/natural/config.json" >config.json
kvcal inspect config.json | grep -e calibration -e quantization
sed 's/"fp8"/"bitsandbytes"/' config.json >other.json
kvcal inspect other.json | grep -e calibration -e quantization
sed 's/"quant_method": "fp8"/"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"/' config.json >int4.json
kvcal inspect int4.json | grep -e calibration -e quantization
