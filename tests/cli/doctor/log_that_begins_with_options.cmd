# A log of which the first line alone is a call that starts a server: what follows counts, whatever it is given as.
printf '%s\n' "server_args=ServerArgs(model_path='m', kv_cache_dtype='auto', attention_backend='flashinfer')" 'Using FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0. This may lead to less accurate results!' >started.log
kvcal doctor started.log | grep LG14
kvcal doctor --log started.log | grep LG14
printf 'vllm serve m --kv-cache-dtype fp8\n!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!\n' >answered.log
kvcal doctor answered.log | grep E15:
