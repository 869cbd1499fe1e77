# Two lists of factors, each as long as the rotary pairs: any other length is refused.
cat >config.json <<"EOF"
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "rms_norm_eps": 1e-5,
 "max_position_embeddings": 4096, "rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}}
EOF
kvcal inspect config.json --json | grep -e supported -e reason
