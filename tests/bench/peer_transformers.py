"""The other side of the CPU comparison: a lean calibration loop as an engineer would write it with transformers.

    python peer_transformers.py MODEL PROMPTS.jsonl [--batch N]

Base model without output head, bfloat16, no cache, all prompts of given ids once, abs-max of K and V as attention
receives them (after norm and rotary embedding). Prints one JSON object: seconds of importing, loading and running.
"""

import argparse
import json
import time

START = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("prompts")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    import torch
    from transformers import AutoModel, AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    imported = time.perf_counter()
    torch.set_num_threads(args.threads)
    absmax: dict[tuple[int, str], float] = {}

    def observed(module, query, key, value, *rest, **kwargs):
        for site, x in (("key", key), ("value", value)):
            name = (module.layer_idx, site)
            absmax[name] = max(absmax.get(name, 0.0), x.abs().max().item())
        return sdpa_attention_forward(module, query, key, value, *rest, **kwargs)

    AttentionInterface.register("observed", observed)
    model = AutoModel.from_pretrained(args.model, dtype=torch.bfloat16, attn_implementation="observed").eval()
    model = getattr(model, "language_model", model)
    loaded = time.perf_counter()

    with open(args.prompts) as file:
        ids = [json.loads(line)["input_ids"] for line in file]
    n_tokens = 0
    with torch.inference_mode():
        for at in range(0, len(ids), args.batch):
            batch = torch.tensor(ids[at : at + args.batch])
            n_tokens += batch.numel()
            model(input_ids=batch, use_cache=False)
    done = time.perf_counter()
    print(
        json.dumps(
            {
                "import_seconds": imported - START,
                "load_seconds": loaded - imported,
                "run_seconds": done - loaded,
                "n_tokens": n_tokens,
                "layers_observed": len(absmax) // 2,
                "largest_key": max(v for (_, site), v in absmax.items() if site == "key"),
            }
        )
    )


if __name__ == "__main__":
    main()
