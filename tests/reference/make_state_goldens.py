"""Makes tests/evaluate/state_goldens.json: what rounding recurrent states does to the predictions of tiny checkpoints.

    python make_state_goldens.py

One model call for each token, a row of the batch for each way to store states: behind the tokens after which a server stores
them, the framework's cache has the states of that row rounded (state_formats.py). The first row's stay as they are.
"""

from pathlib import Path

import ml_dtypes
import torch
import transformers

from json_lines import write_json
from make_evaluation_goldens import Reference, divergence, log_probabilities
from state_formats import round_state

GOLDEN = Path(__file__).resolve().parents[1] / "evaluate" / "state_goldens.json"
MODELS = {"qwen3_next": "gated delta rule", "kimi_linear": "Kimi delta attention", "jamba": "Mamba", "bamba": "Mamba-2",
          "minimax": "lightning attention", "falcon_h1": "Mamba-2 beside attention in one layer"}
TRANSPOSED = ("bamba", "falcon_h1")  # whose states are [values, keys] of each head
TOKENS = 264
PARTS = 4
EVERY = TOKENS + 1  # no token of the prompt is decoded
# Format, stored after so many tokens of a prompt (0: after the last alone), tokens of the prompt; those that follow are
# decoded one by one.
STORED = [("bf16", 1, EVERY), ("f16", 1, EVERY), ("f16_stochastic", 1, EVERY), ("fp8_e4m3", 1, EVERY),
          ("fp8_e5m2_per_tile", 1, EVERY), ("int8_per_row", 1, EVERY), ("int16_per_head", 1, EVERY),
          ("fp8_e4m3_per_head", 64, EVERY), ("fp8_e5m2_per_row", 64, EVERY), ("int8", 256, EVERY), ("int16", 64, EVERY),
          ("fp8_e4m3_per_row", 0, 200), ("int8_per_head", 64, 200)]


def is_stored(chunk: int, prompt: int, passed: int) -> bool:
    return passed >= prompt or (chunk > 0 and passed % chunk == 0)


def states_of(cache) -> dict[int, torch.Tensor]:
    """{layer: state [rows, ...]}"""
    if hasattr(cache, "linear_cache"):
        return {i: state for i, state in enumerate(cache.linear_cache) if len(state)}
    return {i: state for i, layer in enumerate(cache.layers)
            for state in getattr(layer, "recurrent_states", {}).values() if state is not None}


def round_states(cache, passed: int, transposed: bool) -> None:
    for layer, states in states_of(cache).items():
        for row, (name, chunk, prompt) in enumerate(STORED, start=1):
            if not is_stored(chunk, prompt, passed):
                continue
            state = states[row].transpose(-1, -2) if transposed else states[row]
            rounded = torch.from_numpy(round_state(state.contiguous().numpy(), name, layer, passed))
            states[row].copy_(rounded.transpose(-1, -2) if transposed else rounded)


def predictions(name: str, ids: list[int]) -> torch.Tensor:
    """Logits [rows, tokens, vocab]."""
    reference = Reference(name)
    reference.cache.away = True
    cache, steps = None, []
    for passed, token in enumerate(ids, start=1):
        rows = torch.full((1 + len(STORED), 1), token)
        # Of some classes the framework counts positions by a layer that has none.
        output = reference.model(input_ids=rows, position_ids=torch.full_like(rows, passed - 1), past_key_values=cache,
                                 use_cache=True)
        cache = output.past_key_values
        steps.append(output.logits[:, 0])
        round_states(cache, passed, name in TRANSPOSED)
    return torch.stack(steps, dim=1)


def short(x: float) -> float:
    return float(f"{x:.6g}")


def golden_of(name: str) -> dict:
    vocab = Reference(name).model.config.get_text_config().vocab_size
    ids = [(i * i + 3 * i) % vocab for i in range(TOKENS)]
    logits = predictions(name, ids)
    nll = [-log_probabilities(x)[:-1].gather(1, torch.tensor(ids)[1:, None])[:, 0].mean() for x in logits]
    kl = [divergence(logits[0], x).reshape(PARTS, -1).mean(dim=1).tolist() for x in logits]
    print(f"{name}: " + ", ".join(f"{s[0]} {sum(k) / PARTS:.2e}" for s, k in zip(STORED, kl[1:])), flush=True)
    return {"case": name, "note": MODELS[name], "vocab": vocab, "nll": short(nll[0]),
            "stored": [{"format": f, "chunk": chunk, "prompt": prompt, "kl": [short(x) for x in k], "nll": short(n)}
                       for (f, chunk, prompt), k, n in zip(STORED, kl[1:], nll[1:])]}


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    write_json(GOLDEN, {"made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
                        "transformers": transformers.__version__, "ml_dtypes": ml_dtypes.__version__, "tokens": TOKENS,
                        "cases": [golden_of(name) for name in MODELS]})


if __name__ == "__main__":
    main()
