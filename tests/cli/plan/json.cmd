# Six delta nets: 6 x (256 channels x 3 x 2 + 4 x 32 x 32 x 4) = 107,520 bytes of state. Two layers with a cache: 2 x 2
# heads x (64 + 64) x 2 = 1,024 bytes a token. 0.9 x 200 MiB - 2,009,888 - 100 MiB = 81,876,192 bytes for it;
# 2,048 tokens take 2,204,672, 1,156,096 and 697,344 (NVFP4 and INT4): 37, 70 and 117 sequences.
kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 200MiB --allowance 100MiB --json | tr -d ' \n' >plan.json
for part in '"source":"headers"' '"cache":81876192' '"kv_bytes_per_token":{"bf16":1024,"fp8":512,"nvfp4":288,"int4":288}' \
  '"state_bytes_per_sequence":107520' \
  '{"context":2048,"sequences":{"bf16":37,"fp8":70,"nvfp4":117,"int4":117},"bytes_per_sequence":{"bf16":2204672,"fp8":1156096,"nvfp4":697344,"int4":697344}}' \
  '"advice":{"name":"use_fp8"'; do
  grep -qF "$part" plan.json || echo "not there: $part"
done
