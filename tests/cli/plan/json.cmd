# Six delta nets: a slot is 6 x (256 channels x 3 x 2 + 4 x 32 x 32 x 2) = 58,368 bytes of state in the model's own type, which
# vLLM takes here, and a sequence holds two. In F32 107,520, in 8 bits 6 x (1,536 + 4,096 + 128 rows x 4) = 36,864. Two layers with
# a cache: 2 x 2 heads x (64 + 64) x 2 = 1,024 bytes a token. 0.9 x 200 MiB - 2,009,888 - 100 MiB = 81,876,192 bytes for it;
# 2,048 tokens take 2,213,888, 1,165,312 and 706,560 (NVFP4 and INT4): 36, 70 and 115 sequences.
kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 200MiB --allowance 100MiB --json | tr -d ' \n' >plan.json
for part in '"source":"headers"' '"cache":81876192' '"kv_bytes_per_token":{"bf16":1024,"fp8":512,"nvfp4":288,"int4":288}' \
  '"state_bytes_per_sequence":116736' '"state":{"dtype":"bf16","decided_by":"default","server":"vLLM0.33.0","slots":2,' \
  '"kinds":[{"kind":"gated_delta_net","n_layers":6,"state_bytes":49152,"conv_bytes":9216}]' \
  '"f32":{"slot_bytes":107520,"sequences":{"bf16":35,"fp8":64}}' '"int8":{"slot_bytes":36864,"sequences":{"bf16":37,"fp8":72}}' \
  '{"context":2048,"sequences":{"bf16":36,"fp8":70,"nvfp4":115,"int4":115},"bytes_per_sequence":{"bf16":2213888,"fp8":1165312,"nvfp4":706560,"int4":706560}}' \
  '"formats":{"fp8":{"served":true,"text":""},"nvfp4":{"served":true,"text":""},"int4":{"served":true,"text":"vLLM0.33.0alone(SGLang0.5.23:nosuchtype)"}}' \
  '"advice":{"name":"use_fp8"'; do
  grep -qF "$part" plan.json || echo "not there: $part"
done
