# Two layers of 2 heads x (64 + 64): 512 bytes a token each in BF16, 256 in FP8, 144 in NVFP4 and INT4. One is said to be keep16.
kvcal calibrate "$SOURCE/datasets/demo/natural" --prompts "$SOURCE/datasets/demo/prompts.jsonl" --max-prompts 2 -q -o s.json
sed '0,/"verdict"/ { s/"fp8": "[a-z]*"/"fp8": "keep16"/; s/"verdict": "[a-z]*"/"verdict": "inadequate"/ }' s.json >bad.json
for scales in s.json bad.json; do
  kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --allowance 100MiB --scales $scales --json |
    tr -d ' \n' | grep -o -e '"layers_in_16_bits":[^]]*]' -e '"kv_bytes_per_token":{[^}]*}'
done
kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --allowance 100MiB --scales bad.json | grep "caches stay in BF16"
sed 's/"head_dim_k": 64/"head_dim_k": 128/' s.json >other.json
kvcal plan "$SOURCE/datasets/demo/natural" --gpu-memory 1GiB --scales other.json || echo exit $?
