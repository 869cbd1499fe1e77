# 'inspect && calibrate' stops at a model that cannot be calibrated, whatever the reason and the form of the output.
demo="$SOURCE/datasets/demo/natural"
kvcal inspect "$demo" >/dev/null && echo supported
sed 's/Qwen3_5ForCausalLM/StrangeForCausalLM/' "$demo/config.json" >strange.json
kvcal inspect strange.json >/dev/null; echo $?
kvcal inspect strange.json --json >/dev/null; echo $?
sed 's/^{/{"quantization_config": {"quant_method": "bitsandbytes"},/' "$demo/config.json" >quantized.json
kvcal inspect quantized.json >/dev/null; echo $?
cp -r "$demo" model
mv model/model.safetensors model/pytorch_model.bin
kvcal inspect model >/dev/null; echo $?
