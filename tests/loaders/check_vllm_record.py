"""check_vllm_record.py FOLDER LIKE OUT TOKENS: what the vLLM plug-in records of these sequences, by vLLM's own classes.

FOLDER: a checkpoint; LIKE: its statistics; TOKENS: a JSON list of lists of token ids, one step each, or two of a packed step.
vLLM's loader, model class, Attention layers, custom ops and Worker.execute_model run; its kernels, which need a GPU, are replaced
by attention in plain PyTorch, and no cache is kept. Exit: 0 it was recorded.
"""

import contextlib
import json
import os
import sys
import types

import check_vllm
import verdict


def attention(self, layer, query, key, value, kv_cache, metadata, output=None, *_, **__):
    """Of the sequences in a step, whose lengths are the metadata."""
    import torch

    begin, groups = 0, query.shape[1] // key.shape[1]
    for n in metadata:
        q, k, v = (x[begin : begin + n].transpose(0, 1).float() for x in (query, key, value))
        k, v = k.repeat_interleave(groups, 0), v.repeat_interleave(groups, 0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale)
        output[begin : begin + n] = y.transpose(0, 1).to(output.dtype)
        begin += n
    return output


def latent_attention(self, query, latent, rope, kv_cache, metadata, output, **_):
    """The same of MLA: every head's keys and values are made of the latent row."""
    import torch

    made = self.kv_b_proj(latent)[0].view(len(latent), self.num_heads, -1)
    key = torch.cat([made[..., : self.qk_nope_head_dim], rope.reshape(len(rope), 1, -1).expand(-1, self.num_heads, -1)], -1)
    value = made[..., self.qk_nope_head_dim :]
    return attention(self, None, query, key, value, None, metadata, output.view(len(output), self.num_heads, -1))


class Runner:
    """In place of the model runner: fills its buffer of positions, runs the model."""

    def __init__(self, model, config):
        import torch

        self.model, self.config, self.positions = model, config, torch.zeros(4096, dtype=torch.int64)

    def execute_model(self, step, _):
        import torch
        from vllm.forward_context import set_forward_context

        ids = torch.tensor([t for sequence in step.sequences for t in sequence])
        lengths = [len(sequence) for sequence in step.sequences]
        self.positions[: len(ids)] = torch.cat([torch.arange(n) for n in lengths])
        names = self.config.compilation_config.static_forward_context
        with set_forward_context({name: lengths for name in names}, self.config, num_tokens=len(ids), slot_mapping={}):
            padding = torch.zeros(step.padding, dtype=torch.int64)  # as in a graph of a larger batch
            with torch.inference_mode():
                self.model(torch.cat([ids, padding]), torch.cat([self.positions[: len(ids)], padding]))


def main(folder, like, out, tokens):
    check_vllm.preload()
    os.environ["KVCAL_CHECK_ADDITIONAL_CONFIG"] = json.dumps(
        {"kv_cache_record": {"to": out, "like": like, "every": 1, "window": 2}})
    options = check_vllm.args([folder, "--kv-cache-dtype", "auto"])
    import kv_cache_scales.vllm

    kv_cache_scales.vllm.register()
    config = check_vllm.engine_config(options)
    config.compilation_config.custom_ops = ["none"]  # their PyTorch forms
    check_vllm.start_ranks(config)
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.layers.attention.mla_attention import MLAAttention
    from vllm.model_executor.model_loader import get_model_loader
    from vllm.v1.attention.backends.flash_attn import FlashAttentionImpl
    from vllm.v1.attention.backends.flex_attention import FlexAttentionImpl
    from vllm.v1.attention.backends.mla.prefill.flash_attn import FlashAttnPrefillBackend
    from vllm.v1.worker.gpu_worker import Worker

    FlashAttentionImpl.forward = FlexAttentionImpl.forward = attention  # the second for heads of odd widths
    MLAAttention.forward_impl = latent_attention
    FlashAttnPrefillBackend.supports_mla_dimensions = lambda _: True  # the widths of a golden are no kernel's
    with set_current_vllm_config(config):
        model = get_model_loader(config.load_config).load_model(vllm_config=config, model_config=config.model_config)
    worker = object.__new__(Worker)
    worker.__dict__.update(_pp_send_work=[], use_v2_model_runner=False, model_runner=Runner(model, config),
                           annotate_profile=lambda _: contextlib.nullcontext(), vllm_config=config)
    with open(tokens) as file, set_current_vllm_config(config):
        for sequences in json.load(file):
            if isinstance(sequences[0], int):
                sequences = [sequences]
            n = sum(map(len, sequences))
            worker.execute_model(types.SimpleNamespace(total_num_scheduled_tokens=n, sequences=sequences, padding=0))
    model._kv_cache_recorder.close()
    return 0


if __name__ == "__main__":
    verdict.start_under("vllm", VLLM_NO_USAGE_STATS="1", VLLM_PLUGINS="", VLLM_USE_DEEP_GEMM="0", CUDA_VISIBLE_DEVICES="",
                        HUMMING_DISABLE_PARALLEL_BUILD="1", VLLM_DISABLE_COMPILE_CACHE="1")
    sys.exit(main(*sys.argv[1:]))
