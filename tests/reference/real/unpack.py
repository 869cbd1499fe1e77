"""A Llama in a GGUF file as a folder that kvcal reads: config.json, model.safetensors in bfloat16, tokenizer.json.

    unpack.py FILE.gguf FOLDER
"""
import json
import sys
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
CONTROL = 3  # token type


def name_of(name):
    if name.startswith("blk."):
        _, layer, kind, _ = name.split(".")
        return f"model.layers.{layer}.{LAYER[kind]}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def halves(w, heads):
    """GGUF has the two channels that RoPE rotates side by side; checkpoints have them half a head apart."""
    return w.reshape(heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def read_weights(reader, heads, kv_heads):
    weights = {}
    for t in reader.tensors:
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        if "attn_q." in t.name or "attn_k." in t.name:
            w = halves(w, heads if "attn_q." in t.name else kv_heads)
        weights[name_of(t.name)] = np.ascontiguousarray(w).astype(ml_dtypes.bfloat16)
    return weights


def make_tokenizer(of):
    tokens, types = of("tokenizer.ggml.tokens"), of("tokenizer.ggml.token_type")
    merges = [tuple(m.split(" ")) for m in of("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    if of("tokenizer.ggml.pre") != "smollm":
        raise ValueError("another way to cut text into words: " + of("tokenizer.ggml.pre"))
    words = [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(words)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == CONTROL])
    return tokenizer


def unpack(file, folder):
    reader = gguf.GGUFReader(file)
    of = lambda key: reader.fields[key].contents()  # noqa: E731
    heads, kv_heads = of("llama.attention.head_count"), of("llama.attention.head_count_kv")
    tokens = of("tokenizer.ggml.tokens")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens),
              "hidden_size": of("llama.embedding_length"), "intermediate_size": of("llama.feed_forward_length"),
              "num_hidden_layers": of("llama.block_count"), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
              "max_position_embeddings": of("llama.context_length"), "rope_theta": of("llama.rope.freq_base"),
              "rms_norm_eps": float(f"{of('llama.attention.layer_norm_rms_epsilon'):.6g}"), "hidden_act": "silu",
              "tie_word_embeddings": True, "torch_dtype": "bfloat16", "bos_token_id": of("tokenizer.ggml.bos_token_id"),
              "eos_token_id": of("tokenizer.ggml.eos_token_id")}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    words = {"chat_template": of("tokenizer.chat_template"), "bos_token": tokens[config["bos_token_id"]],
             "eos_token": tokens[config["eos_token_id"]]}
    (folder / "tokenizer_config.json").write_text(json.dumps(words, indent=1))
    make_tokenizer(of).save(str(folder / "tokenizer.json"))
    save_file(read_weights(reader, heads, kv_heads), folder / "model.safetensors")


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
