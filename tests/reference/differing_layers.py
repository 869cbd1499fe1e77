"""Classes whose layers differ in size, and which the reference framework does not have: its own layers of those sizes, one
after the other, in the model that it has."""

import copy

import torch
import transformers
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


CLASSES = {"NemotronHPuzzleForCausalLM": NemotronHPuzzleForCausalLM}
