"""Writes tests/arch/golden/rope.json: inverse frequencies and magnitudes of every rope type the reference knows.

    python make_rope_goldens.py [--out FILE]

`cases` come from the reference framework (f32); `hand` holds values computed by hand in double precision from the
published formulas, so that a mistake of the reference would show.
"""

import argparse
from pathlib import Path

import torch
import transformers
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from json_lines import write_json

OUT = Path(__file__).resolve().parents[1] / "arch" / "golden" / "rope.json"

YARN = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32768)
# name, head_dim, max_position_embeddings, rope_parameters, sequence lengths (None: as at load time)
CASES = (
    ("default", 128, 4096, dict(rope_type="default", rope_theta=1e4), (None,)),
    ("default_1e7", 64, 32768, dict(rope_type="default", rope_theta=1e7), (None,)),
    ("linear", 128, 8192, dict(rope_type="linear", rope_theta=1e4, factor=2.5), (None,)),
    ("llama3_8b", 128, 131072, dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                                    high_freq_factor=4.0, original_max_position_embeddings=8192), (None,)),
    ("llama3_1b", 64, 131072, dict(rope_type="llama3", rope_theta=5e5, factor=32.0, low_freq_factor=1.0,
                                   high_freq_factor=4.0, original_max_position_embeddings=8192), (None,)),
    ("yarn", 128, 131072, YARN, (None,)),
    ("yarn_attention_factor", 128, 131072, dict(YARN, attention_factor=0.9), (None,)),
    ("yarn_mscale_pair", 64, 163840, dict(YARN, rope_theta=1e4, factor=40.0, original_max_position_embeddings=4096,
                                          mscale=0.707, mscale_all_dim=1.0), (None,)),
    ("yarn_mscale_equal", 64, 163840, dict(YARN, rope_theta=1e4, factor=40.0, original_max_position_embeddings=4096,
                                           mscale=1.0, mscale_all_dim=1.0), (None,)),
    ("yarn_betas", 128, 131072, dict(YARN, beta_fast=16.0, beta_slow=2.0), (None,)),
    ("yarn_not_truncated", 64, 131072, dict(YARN, rope_theta=150000.0, factor=32.0,
                                            original_max_position_embeddings=4096, truncate=False), (None,)),
    ("yarn_factor_one", 128, 32768, dict(YARN, factor=1.0), (None,)),
    ("dynamic", 128, 2048, dict(rope_type="dynamic", rope_theta=1e4, factor=4.0), (None, 1000, 3000, 8192)),
    ("longrope", 16, 131072, dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=4096,
                                  short_factor=[1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0],
                                  long_factor=[1.0, 1.5, 2.5, 5.0, 12.0, 24.0, 40.0, 60.0]), (None, 4096, 4097)),
    ("longrope_attention_factor", 16, 131072,
     dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=4096, attention_factor=1.1,
          short_factor=[1.0] * 8, long_factor=[2.0] * 8), (None, 5000)),
)
HAND = [
    {"name": "rotation", "x": [1, 2, 3, 4], "position": 3, "theta": 1e4,
     "neox": [-1.41335252, 1.87911807, -2.82885748, 4.05819114],
     "gptj": [-1.27223251, -1.83886499, 2.8786681, 4.08818664]},
    {"name": "llama3", "config": dict(head_dim=128, rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                                      high_freq_factor=4.0, original_max_position_embeddings=8192),
     "inv_freq": {"1": 0.814617234, "20": 0.0165604401, "28": 0.00321144599, "29": 0.00216657076, "32": 5.24846161e-4,
                  "36": 7.78465527e-5, "40": 3.4281022e-5, "63": 3.06892599e-7}, "magnitude": 1.0},
    {"name": "yarn_not_truncated", "config": dict(head_dim=64, rope_type="yarn", rope_theta=150000.0, factor=32.0,
                                                  original_max_position_embeddings=4096, truncate=False),
     "inv_freq": {"8": 0.0508132748, "9": 0.0317056962, "12": 0.00679495949, "16": 4.56483919e-4, "17": 1.29318701e-4,
                  "18": 3.83088124e-5, "31": 3.02351143e-7}, "magnitude": 1.34657359},
    {"name": "yarn_deepseek", "config": dict(head_dim=64, rope_type="yarn", rope_theta=1e4, factor=40.0,
                                             original_max_position_embeddings=4096, mscale=1.0, mscale_all_dim=1.0),
     "inv_freq": {"10": 0.0562341325, "11": 0.0390069266, "16": 0.0055, "22": 1.77827941e-4, "23": 3.33380358e-5,
                  "31": 3.33380358e-6}, "magnitude": 1.0},
    {"name": "yarn_qwen2_5", "config": dict(head_dim=128, **YARN),
     "inv_freq": {"30": 0.00106436098, "40": 4.44569853e-5}, "magnitude": 1.13862944},
    {"name": "default_qwen3_5", "config": dict(head_dim=64, rope_type="default", rope_theta=1e7),
     "inv_freq": {"1": 0.60429639, "16": 3.16227766e-4, "31": 1.6548171e-7}, "magnitude": 1.0},
]


def frequencies(config: LlamaConfig, seq_len: int | None) -> tuple[list[float], float | None]:
    kind = config.rope_parameters["rope_type"]
    default = LlamaRotaryEmbedding.compute_default_rope_parameters
    initialise = default if kind == "default" else ROPE_INIT_FUNCTIONS[kind]
    inv_freq, magnitude = initialise(config) if seq_len is None else initialise(config, seq_len=seq_len)
    return inv_freq.tolist(), float(magnitude)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    cases = []
    for name, head_dim, longest, parameters, lengths in CASES:
        config = LlamaConfig(hidden_size=head_dim, num_attention_heads=1, head_dim=head_dim,
                             max_position_embeddings=longest, rope_parameters=dict(parameters))
        for seq_len in lengths:
            inv_freq, magnitude = frequencies(config, seq_len)
            cases.append({"name": name if seq_len is None else f"{name}_at_{seq_len}",
                          "config": dict(head_dim=head_dim, max_position_embeddings=longest, **parameters),
                          "seq_len": seq_len, "inv_freq": inv_freq, "magnitude": magnitude})
    write_json(options.out, {"made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
                             "transformers": transformers.__version__, "cases": cases, "hand": HAND})
    worst = 0.0
    for hand in HAND[1:]:
        config = LlamaConfig(hidden_size=hand["config"]["head_dim"], num_attention_heads=1,
                             max_position_embeddings=131072,
                             rope_parameters={k: v for k, v in hand["config"].items() if k != "head_dim"})
        inv_freq, magnitude = frequencies(config, None)
        gaps = [abs(inv_freq[int(i)] / value - 1) for i, value in hand["inv_freq"].items()]
        worst = max([worst, abs(magnitude / hand["magnitude"] - 1), *gaps])
    print(f"{len(cases)} cases; hand values agree within {worst:.1e}")


if __name__ == "__main__":
    main()
