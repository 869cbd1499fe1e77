"""A model in a GGUF file as a folder that kvcal reads: config.json, model.safetensors in bfloat16, tokenizer.json.

    unpack.py FILE.gguf FOLDER

Llama, Qwen2 and Gemma 3, the families that packages carry. Weights are what the file's codes stand for, rounded to bfloat16.
"""
import json
import sys
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
LAYER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
GEMMA = LAYER | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
                 "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                 "post_ffw_norm": "post_feedforward_layernorm"}
CONTROL = 3  # token type
QWEN_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def halves(w, heads):
    """GGUF has the two channels that Llama's RoPE rotates side by side; checkpoints have them half a head apart."""
    return w.reshape(heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


class Family:
    names = LAYER
    config = {}

    def __init__(self, reader):
        self.reader = reader
        self.of = lambda key: reader.fields[key].contents()
        self.kind = self.of("general.architecture")
        self.sized = lambda key: self.of(f"{self.kind}.{key}")

    def name_of(self, name):
        *layer, kind, what = name.split(".")
        if not layer:
            return f"{OUTSIDE[kind]}.{what}"
        return f"model.layers.{layer[1]}.{self.names[kind]}.{what}"

    def weight(self, name, w):
        return w

    def weights(self):
        for t in self.reader.tensors:
            w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
            yield self.name_of(t.name), np.ascontiguousarray(self.weight(t.name, w)).astype(ml_dtypes.bfloat16)

    def whole_config(self):
        return {"model_type": self.kind, "vocab_size": len(self.of("tokenizer.ggml.tokens")), "torch_dtype": "bfloat16",
                "hidden_size": self.sized("embedding_length"), "intermediate_size": self.sized("feed_forward_length"),
                "num_hidden_layers": self.sized("block_count"), "num_attention_heads": self.sized("attention.head_count"),
                "num_key_value_heads": self.sized("attention.head_count_kv"),
                "max_position_embeddings": self.sized("context_length"), "rope_theta": self.sized("rope.freq_base"),
                "rms_norm_eps": float(f"{self.sized('attention.layer_norm_rms_epsilon'):.6g}"),
                "tie_word_embeddings": all(t.name != "output.weight" for t in self.reader.tensors),
                "bos_token_id": self.of("tokenizer.ggml.bos_token_id"),
                "eos_token_id": self.of("tokenizer.ggml.eos_token_id")} | self.config

    def words(self):
        """What cuts a text into pieces before BPE."""
        raise NotImplementedError

    def bare_tokenizer(self):
        merges = [tuple(m.split(" ")) for m in self.of("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(self.of("tokenizer.ggml.tokens"))}, merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(self.words())
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    def tokenizer(self):
        tokenizer = self.bare_tokenizer()
        tokens, types = self.of("tokenizer.ggml.tokens"), self.of("tokenizer.ggml.token_type")
        tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == CONTROL])
        if "tokenizer.ggml.add_bos_token" in self.reader.fields and self.of("tokenizer.ggml.add_bos_token"):
            first = self.of("tokenizer.ggml.bos_token_id")
            tokenizer.post_processor = processors.TemplateProcessing(single=f"{tokens[first]} $A", special_tokens=[(tokens[first], first)])
        return tokenizer


class Llama(Family):
    config = {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu"}

    def weight(self, name, w):
        if "attn_q." in name:
            return halves(w, self.sized("attention.head_count"))
        return halves(w, self.sized("attention.head_count_kv")) if "attn_k." in name else w

    def words(self):
        if self.of("tokenizer.ggml.pre") != "smollm":
            raise ValueError("another way to cut text into words: " + self.of("tokenizer.ggml.pre"))
        return [pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]


class Qwen2(Family):
    config = {"architectures": ["Qwen2ForCausalLM"], "hidden_act": "silu"}

    def words(self):
        return [pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]

    def bare_tokenizer(self):
        tokenizer = super().bare_tokenizer()
        tokenizer.normalizer = normalizers.NFC()
        return tokenizer


class Gemma3(Family):
    """The 270M: every sixth layer sees all, the others 512 tokens."""
    names = GEMMA
    config = {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh",
              "rope_local_base_freq": 10000.0, "query_pre_attn_scalar": 256, "sliding_window_pattern": 6}

    def weight(self, name, w):
        return w - 1 if "norm" in name else w  # GGUF has the factor, checkpoints what is added to 1

    def whole_config(self):
        return super().whole_config() | {"head_dim": self.sized("attention.key_length"),
                                         "sliding_window": self.sized("attention.sliding_window")}

    def bare_tokenizer(self):
        """SentencePiece merges the pair whose whole has the best score; Gemma's scores fall with the token's number."""
        number = {t.replace(" ", "▁"): i for i, t in enumerate(self.of("tokenizer.ggml.tokens"))}
        pairs = [(i, number[t[:cut]], number[t[cut:]], t[:cut], t[cut:]) for t, i in number.items()
                 for cut in range(1, len(t)) if t[:cut] in number and t[cut:] in number]
        tokenizer = Tokenizer(models.BPE(number, [p[3:] for p in sorted(pairs)], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        return tokenizer


FAMILIES = {"llama": Llama, "qwen2": Qwen2, "gemma3": Gemma3}


def unpack(file, folder):
    reader = gguf.GGUFReader(file)
    family = FAMILIES[reader.fields["general.architecture"].contents()](reader)
    config, tokens = family.whole_config(), family.of("tokenizer.ggml.tokens")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    words = {"bos_token": tokens[config["bos_token_id"]], "eos_token": tokens[config["eos_token_id"]]}
    if "tokenizer.chat_template" in reader.fields:
        words["chat_template"] = family.of("tokenizer.chat_template")
    (folder / "tokenizer_config.json").write_text(json.dumps(words, indent=1))
    family.tokenizer().save(str(folder / "tokenizer.json"))
    save_file(dict(family.weights()), folder / "model.safetensors")


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
