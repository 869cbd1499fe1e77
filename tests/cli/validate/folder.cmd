# Checkpoints of other tools: what the servers use, and what is wrong. Three layers with BF16 scales of these bytes, as llm-compressor has them.
write_checkpoint() {
    mkdir "$1"
    sed 's/^}$/,"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": true, "dynamic": false}}}/' "$SOURCE/tests/arch/golden/llama/config.json" >"$1/config.json"
    header='{"model.embed_tokens.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}'
    at=4
    for layer in 0 1 2; do
        for site in k v; do
            header="$header,\"model.layers.$layer.self_attn.${site}_scale\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[$at,$((at + 2))]}"
            at=$((at + 2))
        done
    done
    header="$header}"
    {
        printf "$(printf '\\%03o\\%03o' $((${#header} % 256)) $((${#header} / 256)))\0\0\0\0\0\0%s\0\0\0\0" "$header"
        printf "$2"
    } >"$1/model.safetensors"
}
write_checkpoint sound '\015\074\017\073\103\074\155\073\161\074\373\072'
kvcal validate sound
echo exit $?
write_checkpoint zero '\015\074\0\0\103\074\155\073\161\074\373\072'
kvcal validate zero --server vllm@0.33 --format github || echo exit $?
kvcal validate zero --server sglang --format sarif | grep '"uri": "zero' | sort -u
write_checkpoint key '\0\0\017\073\103\074\155\073\161\074\373\072'
kvcal validate key --server sglang --server vllm@0.33 | grep -e ' start' -e '^layer' -e '^0'
kvcal validate sound --server vllm@0.24 --json | sed -n '/"servers"/,$p' | head -n 12
