"""The tiny models whose goldens make_arch_goldens.py writes: one entry per case, saying what it varies.

`config` holds keyword arguments of the reference configuration class. `published` turns the config.json that the
reference framework writes into the older form that published checkpoints use (both forms must be understood); the
goldens are always computed from the files as they finally lie in the folder, except where a case has `served`.
"""

from cases import (bailing, biased, cohere, deepseek_ocr, dense, gemma, granite_swa, hybrid, kimi, layer_norm, llama4, llama_qwen, mimo, mla, moe, muse,
                   olmo_hybrid, qwen_hybrid, step, vision, wrappers)
from cases.case import Case

FAMILIES = (bailing, biased, cohere, deepseek_ocr, dense, gemma, granite_swa, hybrid, kimi, layer_norm, llama4, llama_qwen, mimo, mla, moe, muse, olmo_hybrid, qwen_hybrid,
            step, vision, wrappers)
CASES: tuple[Case, ...] = tuple(case for family in FAMILIES for case in family.CASES)
