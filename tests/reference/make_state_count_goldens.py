"""Makes tests/arch/state_counts.json: the recurrent states of tiny checkpoints, as the framework's own cache has them.

    python make_state_count_goldens.py

One model call for each token. After the tokens at which a state is counted every number is rounded to bfloat16; of each head the
file has the largest code, how many numbers each octave has, which is the code's upper half, 0 for zeros and subnormals, and
what E4M3 of ml_dtypes does to them without a scale and with one for the layer.
"""

from pathlib import Path

import ml_dtypes
import numpy as np
import torch
import transformers

from json_lines import write_json
from make_evaluation_goldens import Reference
from make_state_goldens import MODELS, states_of

GOLDEN = Path(__file__).resolve().parents[1] / "arch" / "state_counts.json"
TOKENS = 300
COUNTED = (64, 256, TOKENS)


def codes_of(state: np.ndarray) -> np.ndarray:
    """bfloat16 without the sign, [heads, numbers]; one head where the state is [channels, n]."""
    bits = state.astype(ml_dtypes.bfloat16).view(np.uint16) & 0x7FFF
    return bits.reshape(state.shape[0] if state.ndim == 3 else 1, -1)


def octaves_of(head: np.ndarray) -> list[int]:
    """The first octave that occurs, and the counts from there on."""
    counts = np.bincount(head >> 7)
    first = int(np.flatnonzero(counts)[0])
    return [first, *(int(n) for n in counts[first:])]


def short(x: float) -> float:
    return float(f"{x:.6g}")


def e4m3_errors(heads: np.ndarray, scale: float) -> list[float]:
    """Of each head of codes: sqrt(sum of squared errors / sum of squares) when E4M3 stores it with this scale."""
    x = heads.astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float64)
    stored = np.minimum(x / scale, 448.0).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
    return [short(np.sqrt(((s - h) ** 2).sum() / (h ** 2).sum())) for s, h in zip(stored, x)]


def golden_of(name: str) -> dict:
    reference = Reference(name)
    reference.cache.away = True
    vocab = reference.model.config.get_text_config().vocab_size
    cache, codes = None, {}
    for passed in range(1, TOKENS + 1):
        i = passed - 1
        token = torch.tensor([[(i * i + 3 * i) % vocab]])
        cache = reference.model(input_ids=token, position_ids=torch.tensor([[i]]), past_key_values=cache,
                                use_cache=True).past_key_values
        if passed in COUNTED:
            for layer, state in states_of(cache).items():
                codes.setdefault(layer, []).append(codes_of(state[0].float().numpy()))
    layers = []
    for layer, states in sorted(codes.items()):
        heads = np.concatenate(states, axis=1)
        largest = float(np.array([heads.max()], np.uint16).view(ml_dtypes.bfloat16)[0])
        layers.append({"layer": layer, "absmax": [int(h.max()) for h in heads],
                       "by_state": [int(s.max()) for s in states],
                       "octaves": [octaves_of(h) for h in heads],
                       "e4m3_at_one": e4m3_errors(heads, 1.0), "e4m3_at_range": e4m3_errors(heads, largest / 448)})
    print(f"{name}: layers {', '.join(str(entry['layer']) for entry in layers)}", flush=True)
    return {"case": name, "note": MODELS[name], "layers": layers}


def main() -> None:
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    write_json(GOLDEN, {"made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
                        "transformers": transformers.__version__, "tokens": TOKENS, "counted": list(COUNTED),
                        "cases": [golden_of(name) for name in MODELS]})


if __name__ == "__main__":
    main()
