"""Classes whose layers differ in size, and which the reference framework does not have: its own layers of those sizes, one
after the other, in the model that it has."""

import copy

import torch
import transformers
from torch import nn
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm
from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHBlock


def own_config(config, changes: dict):
    own = copy.copy(config)
    for key, value in changes.items():
        setattr(own, key, value)
    return own


def see_a_window(module, args, kwargs):
    """Before attention, of one sequence: a query sees its own key and `sliding_window` - 1 before it."""
    x = kwargs["hidden_states"]
    at = torch.arange(x.shape[1])
    behind = at[:, None] - at[None]
    mask = torch.zeros(1, 1, len(at), len(at), dtype=x.dtype)
    mask.masked_fill_((behind < 0) | (behind >= module.config.sliding_window), torch.finfo(x.dtype).min)
    return args, dict(kwargs, attention_mask=mask)


class NemotronHPuzzleConfig(transformers.NemotronHConfig):
    pass


class NemotronHPuzzleForCausalLM(transformers.NemotronHForCausalLM):
    """block_configs: for each layer its block_type and the keys that it has its own values of."""

    config_class = NemotronHPuzzleConfig

    def __init__(self, config):
        super().__init__(config)
        for i, block in enumerate(config.block_configs):
            own = own_config(config, {key: value for key, value in block.items() if key != "block_type"})
            self.model.layers[i] = NemotronHBlock(own, layer_idx=i)
            if block.get("sliding_window"):
                self.model.layers[i].mixer.register_forward_pre_hook(see_a_window, with_kwargs=True)
        self.post_init()


class DeciLayer(nn.Module):
    """A layer of Llama with its own number of key heads and width; with neither, one branch, or none."""

    def __init__(self, config, block: dict, layer_idx: int):
        super().__init__()
        attention, ffn = block["attention"], block["ffn"]
        if not attention["no_op"]:
            own = own_config(config, dict(num_key_value_heads=config.num_attention_heads // attention["n_heads_in_group"]))
            self.self_attn = LlamaAttention(own, layer_idx)
            self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        if not ffn["no_op"]:
            width = ffn.get("intermediate_size") or width_of(ffn["ffn_mult"], config.hidden_size)
            self.mlp = LlamaMLP(own_config(config, dict(intermediate_size=width)))
            self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden_states, **kwargs):
        if hasattr(self, "self_attn"):
            hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states), **kwargs)[0]
        if hasattr(self, "mlp"):
            hidden_states = hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
        return hidden_states


def width_of(ffn_mult: float, hidden: int) -> int:
    """As the makers' code has it: two thirds of so many times the hidden size, twice, up to a multiple of 256."""
    return -(-int(2 * ffn_mult * hidden / 3) // 256) * 256


class DeciLMConfig(transformers.LlamaConfig):
    pass


class DeciLMForCausalLM(transformers.LlamaForCausalLM):
    config_class = DeciLMConfig

    def __init__(self, config):
        super().__init__(config)
        self.model.layers = nn.ModuleList(DeciLayer(config, block, i) for i, block in enumerate(config.block_configs))
        self.post_init()


CLASSES = {"DeciLMForCausalLM": DeciLMForCausalLM, "NemotronHPuzzleForCausalLM": NemotronHPuzzleForCausalLM}
