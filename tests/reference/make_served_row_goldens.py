"""What vLLM's own kernels make of rows in four bits: the cache int4_per_token_head, and values of TurboQuant's caches.

    python make_served_row_goldens.py          (re)makes tests/parity/golden/served_rows.safetensors

The kernels run on the processor, in Triton's interpreter: a wheel of vLLM and its Triton are needed, no GPU. What they
write is read back as the attention kernels do it. Tensors of the file: `x.WIDTH` [tokens, heads, width], and what comes
back of it, `FORMAT.WIDTH.f32` and, of x rounded to bfloat16, `FORMAT.WIDTH.bf16`.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"

from pathlib import Path

import torch
from triton.backends import backends

for name, backend in backends.items():  # vLLM hides its kernels where no driver is
    backend.driver.is_active = staticmethod(lambda name=name: name == "nvidia")

from safetensors.torch import save_file
from vllm.utils.math_utils import largest_power_of_2_divisor
from vllm.v1.attention.ops import triton_turboquant_store as turboquant
from vllm.v1.attention.ops.int4_per_token_head import reshape_and_cache_int4, single_rht

GOLDEN = Path(__file__).resolve().parents[1] / "parity" / "golden" / "served_rows.safetensors"
TOKENS = {24: 3, 64: 3, 80: 3, 128: 3, 512: 1}  # by width; the widest has all signs of the transform
HEADS, BLOCK = 2, 16


def rows(width: int) -> torch.Tensor:
    """Ordinary rows, one with a loud channel, one beside zero, one of equal numbers, one of zeros."""
    x = torch.randn(max(TOKENS.values()), HEADS, width, generator=torch.Generator().manual_seed(width))
    x[0, 1, width // 3] = 60.0
    x[1, 0] += 5.0
    x[2, 0] = 0.75
    x[2, 1] = 0.0
    return x[: TOKENS[width]]


def int4_per_token_head(x: torch.Tensor) -> torch.Tensor:
    """The cache is in the turned frame, and so are the queries, and attention's output until it is turned back."""
    tokens, width = len(x), x.shape[-1]
    codes = torch.zeros(1, BLOCK, HEADS, width // 2, dtype=torch.uint8)
    scales = torch.zeros(1, BLOCK, HEADS)
    others = torch.zeros_like(codes), torch.zeros_like(scales)
    reshape_and_cache_int4(x, x, codes, others[0], torch.arange(tokens), k_scale_cache=scales, v_scale_cache=others[1])
    bits = scales[0, :tokens].view(torch.int32)
    zero, scale = (bits & 15).float()[..., None], (bits & -16).view(torch.float32)[..., None]
    pairs = codes[0, :tokens]
    turned = (torch.stack([pairs & 15, pairs >> 4], -1).flatten(-2).float() - zero) * scale
    return single_rht(turned, inverse=True) / largest_power_of_2_divisor(width)


def turboquant_values(x: torch.Tensor) -> torch.Tensor:
    """Keys lie before the values, in E4M3 without a scale; the interpreter does not carry where it rounds to that, so
    they are left to cache_formats.py."""
    tokens, width = len(x), x.shape[-1]
    cache = torch.zeros(1, BLOCK, HEADS, width + width // 2 + 4, dtype=torch.uint8)
    turboquant.triton_turboquant_store(x, x, cache, torch.arange(tokens, dtype=torch.int32), None, None, mse_bits=4,
                                       key_packed_size=width, value_quant_bits=4, key_fp8=True)
    pairs, numbers = cache[0, :tokens, :, width:].split([width // 2, 4], -1)
    codes = torch.stack([pairs & 15, pairs >> 4], -1).flatten(-2).float()
    scale, least = numbers.contiguous().view(torch.float16).float().split(1, -1)
    return codes * scale + least


def main() -> None:
    turboquant._use_fp8_e4b15 = lambda device: 0  # as on Hopper; without a GPU it asks for one
    tensors = {}
    for width in TOKENS:
        x = rows(width)
        tensors[f"x.{width}"] = x
        for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            stored = x.to(dtype)
            tensors[f"int4_per_token_head.{width}.{name}"] = int4_per_token_head(stored).to(dtype)
            tensors[f"turboquant_values.{width}.{name}"] = turboquant_values(stored).to(dtype)
    save_file({name: t.contiguous() for name, t in tensors.items()}, GOLDEN, {"vllm": __import__("vllm").__version__})


if __name__ == "__main__":
    main()
