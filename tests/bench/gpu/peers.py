"""The other side of the GPU's benchmarks: torch and transformers, in lines as gpu_bench prints them.

    peers.py attention [--toy] [--device cuda]
    peers.py loops --bench GPU_BENCH --model FOLDER [--model ...] [--toy] [--device cuda]

attention: P4, torch's scaled dot product attention, every backend that takes the shape. loops: P13, tokens a second of
gpu_bench (all statistics) over those of (a) a lean loop over batches with abs-max hooks of K and V on the GPU, the best of
a few batch sizes, and (b) a loop as calibration libraries have it: batch 1, layer by layer, each layer once with hooks
and once to pass on, hidden states in host memory. Both sides in turns, same weights, same prompts. The models come from
write_random_model.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import time

import torch

ROUNDS = 5


def emit(id_: str, name: str, unit: str, values: list[float], **facts) -> None:
    print(json.dumps({"id": id_, "name": name, "unit": unit, "values": values, "median": statistics.median(values),
                      "least": min(values), "most": max(values), **facts}), flush=True)  # fmt: skip


def not_run(id_: str, name: str, why: str) -> None:
    print(json.dumps({"id": id_, "name": name, "not_run": why.strip().splitlines()[0][:300]}), flush=True)


def seconds_of(work, device: str) -> float:
    start = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


# name, heads, key and value heads, key dim, value dim: the list of attention.cpp
SHAPES = [("hd64 gqa", 32, 8, 64, 64), ("hd128 gqa", 32, 8, 128, 128), ("hd256 gqa", 16, 2, 256, 256),
          ("192/128", 32, 32, 192, 128), ("hd128 mha", 32, 32, 128, 128)]  # fmt: skip


def attention(args) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, length = (2, 70) if args.toy else (32, 2048)
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION,
                "efficient": SDPBackend.EFFICIENT_ATTENTION}  # fmt: skip
    if args.toy:
        backends["math"] = SDPBackend.MATH
    for name, heads, kv_heads, key_dim, value_dim in SHAPES:
        def rows(h, d):
            return torch.randn(batch, length, h, d, device=args.device, dtype=torch.bfloat16).transpose(1, 2)

        q, k, v = rows(heads, key_dim), rows(kv_heads, key_dim), rows(kv_heads, value_dim)
        flops = batch * heads * (key_dim + value_dim) * length * (length + 1)
        for whose, backend in backends.items():
            full = f"{name} {batch} x {length} torch {whose}"

            def work(q=q, k=k, v=v):
                with sdpa_kernel(backend):
                    torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=heads != kv_heads)

            try:
                for _ in range(3):
                    seconds_of(work, args.device)
                seconds = [seconds_of(work, args.device) for _ in range(ROUNDS)]
            except RuntimeError as error:
                not_run("P4", full, str(error))
                continue
            emit("P4", full, "TFLOP/s", [1e-12 * flops / s for s in seconds], of=name, whose=f"torch {whose}")


class Hooks:
    """abs-max of K and V as attention receives them, on the device; nothing waits."""

    def __init__(self) -> None:
        from transformers import AttentionInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        self.absmax: dict[tuple[int, str], torch.Tensor] = {}

        def observed(module, query, key, value, *rest, **kwargs):
            for site, x in (("key", key), ("value", value)):
                name, top = (module.layer_idx, site), x.abs().max()
                self.absmax[name] = torch.maximum(self.absmax[name], top) if name in self.absmax else top
            return sdpa_attention_forward(module, query, key, value, *rest, **kwargs)

        AttentionInterface.register("observed", observed)


def lean_loop(model, ids: torch.Tensor, batch: int) -> None:
    for at in range(0, len(ids), batch):
        model(input_ids=ids[at : at + batch], use_cache=False)


def two_pass_loop(model, ids: torch.Tensor) -> None:
    hidden = [model.embed_tokens(row[None]).cpu() for row in ids]
    positions = torch.arange(ids.shape[1], device=ids.device)[None]
    for layer in model.layers:
        for keep in (False, True):
            for i, host in enumerate(hidden):
                x = host.to(ids.device)
                angles = model.rotary_emb(x, positions)
                y = layer(x, attention_mask=None, position_ids=positions, position_embeddings=angles, use_cache=False)
                y = y[0] if isinstance(y, tuple) else y
                if keep:
                    hidden[i] = y.cpu()


def ours(args, folder: str) -> tuple[float, int]:
    """Seconds and tokens of one run, of a process that has had a run before."""
    command = [args.bench, "observed", "--rounds", "1", "--model", folder] + (["--toy"] if args.toy else [])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = json.loads(done.stdout.splitlines()[-1])
    return line["median"], line["tokens"]


def loops(args) -> None:
    from transformers import AutoModel

    hooks = Hooks()
    for folder in args.model:
        name = os.path.basename(folder.rstrip("/"))
        try:
            compare(args, hooks, AutoModel, folder, name)
        except Exception as error:  # noqa: BLE001  (whatever the peer does, the other models are still compared)
            for id_ in ("P13a", "P13b"):
                not_run(id_, name, f"{type(error).__name__}: {error}")
        if args.device == "cuda":
            torch.cuda.empty_cache()


def compare(args, hooks: Hooks, AutoModel, folder: str, name: str) -> None:
    model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="observed").eval()
    model = getattr(model, "language_model", model).to(args.device)
    with open(os.path.join(folder, "prompts.jsonl")) as file:
        ids = torch.tensor([json.loads(line)["input_ids"] for line in file], device=args.device)
    few = ids[: 1 if args.toy else 8]  # of the slow loop, which does every prompt alone
    with torch.inference_mode():
        batches = [1, 2] if args.toy else [4, 8, 16, 32]
        rates = {}
        for batch in batches:
            lean_loop(model, ids[:batch], batch)
            some = ids[: max(batch, len(ids) // 4)]
            rates[batch] = some.numel() / seconds_of(lambda b=batch, s=some: lean_loop(model, s, b), args.device)
        best = max(rates, key=rates.get)
        two_pass_loop(model, few)
        lean, slow, mine = [], [], []
        for _ in range(1 if args.toy else ROUNDS):
            seconds, tokens = ours(args, folder)
            assert tokens == ids.numel(), (tokens, ids.numel())
            mine.append(tokens / seconds)
            lean.append(ids.numel() / seconds_of(lambda: lean_loop(model, ids, best), args.device))
            slow.append(few.numel() / seconds_of(lambda: two_pass_loop(model, few), args.device))
    assert hooks.absmax and all(math.isfinite(x.item()) and x.item() > 0 for x in hooks.absmax.values())
    hooks.absmax.clear()
    for id_, theirs, what in (("P13a", lean, f"lean loop, batch {best}"), ("P13b", slow, "two passes with hooks, batch 1")):
        emit(id_, f"{name}: {what}", "times the loop", [m / t for m, t in zip(mine, theirs)], model=name,
             tokens_per_second=mine, loop_tokens_per_second=theirs)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["attention", "loops"])
    parser.add_argument("--bench")
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    {"attention": attention, "loops": loops}[args.part](args)


if __name__ == "__main__":
    main()
