"""check_sglang_record.py FOLDER LIKE OUT TOKENS: what the SGLang plug-in records of these sequences, by SGLang's own classes.

As check_vllm_record.py: SGLang's loader, model class and RadixAttention run, attention itself is plain PyTorch. ModelRunner, which
needs a pool of the cache, is not built: its forward is called as the plug-in's hook calls it.
"""

import json
import os
import sys
import types

import check_sglang
import verdict


class Attention:
    """In place of the attention backend."""

    def forward(self, q, k, v, layer, forward_batch, save_kv_cache=True, **_):
        import torch

        q = q.view(-1, layer.tp_q_head_num, layer.qk_head_dim)
        k, v = k.view(-1, layer.tp_k_head_num, layer.qk_head_dim), v.view(-1, layer.tp_v_head_num, layer.v_head_dim)
        groups = layer.tp_q_head_num // layer.tp_k_head_num
        q, k, v = (x.transpose(0, 1).float() for x in (q, k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=layer.scaling)
        return y.transpose(0, 1).reshape(y.shape[1], -1).to(torch.bfloat16)


class Batch(types.SimpleNamespace):
    """In place of a ForwardBatch, most of whose members say how a batch is split."""

    def __getattr__(self, _):
        return None


def main(folder, like, out, tokens):
    check_sglang.preload()
    os.environ["KV_CACHE_RECORD"] = json.dumps({"to": out, "like": like, "every": 1, "window": 2})
    import kv_cache_scales.sglang as plugin

    arguments = check_sglang.server_arguments(check_sglang.args([folder, "--kv-cache-dtype", "auto"]))
    import torch
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_executor.forward_batch_info import ForwardMode
    from sglang.srt.model_executor.forward_context import ForwardContext, forward_context
    from sglang.srt.plugins.hook_registry import HookRegistry

    plugin.register()
    HookRegistry.apply_hooks()
    from sglang.srt.model_executor.model_runner import ModelRunner
    from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner

    hooked = [ModelRunner.forward, DecodeCudaGraphRunner.can_run_graph]
    if not all(hasattr(function, "__wrapped__") for function in hooked):
        sys.exit(f"not hooked: {hooked}")
    model_config = ModelConfig.from_server_args(arguments)
    check_sglang.start_ranks(arguments, model_config)
    import sglang.srt.runtime_context as context

    context.process_model_config = lambda: model_config
    model = check_sglang.load(model_config)
    plugin._start_recording(types.SimpleNamespace(model=model))
    if not plugin.RECORDER:
        return 1
    runner = types.SimpleNamespace(is_draft_worker=False)

    def forward(_, batch):
        with torch.inference_mode(), forward_context(ForwardContext(attn_backend=Attention()), forward_batch=batch):
            if DecodeCudaGraphRunner.can_run_graph(None, batch):
                sys.exit("a recorded step would replay a graph")
            model.model(batch.input_ids, batch.positions, batch)

    with open(tokens) as file:
        for ids in json.load(file):
            batch = Batch(forward_mode=ForwardMode.EXTEND, input_ids=torch.tensor(ids), positions=torch.arange(len(ids)))
            plugin._around_step(forward, runner, batch)
    plugin.RECORDER[0].close()
    return 0


if __name__ == "__main__":
    check_sglang.reexec()
    sys.exit(main(*sys.argv[1:]))
