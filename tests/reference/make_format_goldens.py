"""Makes the goldens of quantised weight formats: small checkpoints and the plain weights that they stand for.

    python make_format_goldens.py          (re)makes the folders tests/unit/data/formats/<case>

Each folder holds config.json, model.safetensors as a tool of that format writes it, and expected.safetensors with the
weights by their plain names, in bf16: the product of the stored value and its scale in f32, rounded once. Where the
package compressed-tensors has the format, it packs the weights, and what it unpacks must agree within the rounding of
its own arithmetic; the other formats are packed here from their public description.
"""

import json
from pathlib import Path

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file

FOLDER = Path(__file__).resolve().parents[1] / "unit" / "data" / "formats"
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NAME = "model.layers.0.mlp.up_proj.weight"
MODULE = NAME.removesuffix("weight")


def weights(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.1


def integers(low: int, high: int, shape, seed: int = 2) -> torch.Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def write(case: str, quantization: dict, tensors: dict, expected: dict) -> None:
    folder = FOLDER / case
    folder.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["LlamaForCausalLM"], "quantization_config": quantization}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    save_file({k: v.contiguous() for k, v in expected.items()}, folder / "expected.safetensors", {"format": "pt"})


def spread(scale: torch.Tensor, rows: int, columns: int, shape) -> torch.Tensor:
    """Each scale repeated over its rectangle of rows x columns, cut to the weight's shape."""
    full = scale.float().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    return full[..., : shape[-2], : shape[-1]]


# ------------------------------------------------------------------------------------------------ fp8
def fp8(case: str, quantization: dict, shape, scale_shape, rows: int, columns: int, suffix: str, dtype=torch.float32,
        name: str = NAME) -> None:
    scale = (torch.rand(scale_shape, generator=torch.Generator().manual_seed(3)) * 0.01 + 0.001).to(dtype)
    stored = (weights(*shape) * 500).clamp(-448, 448).to(torch.float8_e4m3fn)
    flat = scale
    if scale.ndim == 0 or scale.numel() == 1:
        full = scale.float().reshape(())
    elif scale.ndim == 1 and len(shape) == 3:
        full = scale.float().reshape(-1, 1, 1)
    else:
        flat = scale.reshape(-1, 1) if scale.ndim == 1 else scale
        flat = flat[:, 0, :, 0] if flat.ndim == 4 else flat
        full = spread(flat, rows, columns, shape)
    write(case, quantization, {name: stored, name + suffix: scale}, {name: (stored.float() * full).bfloat16()})


def make_fp8() -> None:
    block = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    fp8("fp8_block", block, (200, 300), (2, 3), 128, 128, "_scale_inv")
    fp8("fp8_block_bf16_scales", {"quant_method": "fp8", "weight_block_size": [32, 64]}, (96, 128), (3, 2), 32, 64,
        "_scale_inv", torch.bfloat16)
    fp8("fp8_block_experts", block, (3, 160, 64), (3, 2, 1), 128, 128, "_scale_inv",
        name="model.layers.0.mlp.experts.gate_up_proj")
    fp8("fp8_experts_one_each", {"quant_method": "fp8"}, (3, 8, 16), (3,), 8, 16, "_scale_inv",
        name="model.layers.0.mlp.experts.down_proj")
    fp8("fp8_tensor", {"quant_method": "fp8", "activation_scheme": "static"}, (24, 40), (), 24, 40, "_scale")
    fp8("fp8_channel", {"quant_method": "compressed-tensors", "format": "float-quantized",
                        "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}}},
        (24, 40), (24, 1), 1, 40, "_scale", torch.bfloat16)
    fp8("modelopt_fp8_per_channel", {"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}, (24, 40),
        (24,), 1, 40, "_scale")
    fp8("modelopt_fp8_blocks", {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, (256, 384), (2, 1, 3, 1), 128,
        128, "_scale")
    # 16 blocks of a weight with 16 rows are no scales of rows.
    fp8("fp8_as_many_blocks_as_rows", {"quant_method": "fp8", "weight_block_size": [128, 64]}, (16, 1024), (1, 16), 128,
        64, "_scale_inv")


# ------------------------------------------------------------------------------------------------ compressed-tensors
def compressed(case: str, format_name: str, args: dict, tensors: dict, expected: torch.Tensor, group: dict | None = None
               ) -> None:
    """Packs with the package and checks that what it unpacks is what we expect."""
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
    compressor = BaseCompressor.get_value_from_registry(format_name)
    packed = compressor.compress(tensors, scheme)
    back = compressor.decompress(dict(packed), scheme)["weight"].float()
    error = ((back - expected.float()).abs() / expected.float().abs().clamp(min=1e-6)).max().item()
    assert error < 2**-7, (case, error)
    quantization = {"quant_method": "compressed-tensors", "format": format_name,
                    "config_groups": {"group_0": {"targets": ["Linear"], "weights": args | (group or {})}}}
    write(case, quantization, {MODULE + k: v for k, v in packed.items()}, {NAME: expected})


def integer_weight(shape, bits: int, group: int, symmetric: bool):
    """A weight that the scales and zero points quantise without error, and these."""
    half = 1 << (bits - 1)
    n_groups = shape[1] // group
    scale = (torch.rand((shape[0], n_groups), generator=torch.Generator().manual_seed(4)) * 0.01 + 0.001).bfloat16()
    zero = torch.zeros((shape[0], n_groups), dtype=torch.int8)
    if not symmetric:
        zero = integers(-half, half, zero.shape, 5).to(torch.int8)
    q = integers(-half, half, shape).to(torch.int8)
    exact = (q.float() - spread(zero, 1, group, shape)) * spread(scale, 1, group, shape)
    return exact, scale, zero


def make_pack_quantized() -> None:
    for case, bits, shape, group, symmetric in (
            ("pack_int4", 4, (24, 96), 32, True), ("pack_int4_asymmetric", 4, (20, 96), 32, False),
            ("pack_int8", 8, (24, 50), 50, True), ("pack_int3_asymmetric", 3, (24, 96), 48, False),
            # as many words for 24 elements as with 8 bits
            ("pack_int7_few", 7, (8, 24), 24, False)):
        exact, scale, zero = integer_weight(shape, bits, group, symmetric)
        args = dict(num_bits=bits, type="int", symmetric=symmetric,
                    **(dict(strategy="channel") if group == shape[1] else dict(strategy="group", group_size=group)))
        compressed(case, "pack-quantized", args,
                   {"weight": exact, "weight_scale": scale, "weight_zero_point": zero}, exact.bfloat16())


def make_pack_ordered() -> None:
    """Activation order: a group index for every column. Not through the package, which has dropped writing it."""
    shape, group = (16, 64), 16
    q, order = integers(-8, 8, shape), integers(0, 4, (64,), 6).to(torch.int32)
    scale = (torch.rand((16, 4), generator=torch.Generator().manual_seed(7)) * 0.01 + 0.001).half()
    words = torch.zeros((16, 8), dtype=torch.int64)
    for j in range(64):
        words[:, j // 8] |= (q[:, j] + 8) << (4 * (j % 8))
    packed = torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)
    expected = (q.float() * scale.float()[:, order.long()]).bfloat16()
    write("pack_int4_ordered", {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
        "group_0": {"weights": dict(num_bits=4, type="int", strategy="group", group_size=group, actorder="group")}}},
          {NAME + "_packed": packed, NAME + "_scale": scale, NAME + "_g_idx": order,
           NAME + "_shape": torch.tensor(shape)}, {NAME: expected})


def make_int8() -> None:
    exact, scale, zero = integer_weight((24, 40), 8, 40, True)
    compressed("int8_channel", "int-quantized", dict(num_bits=8, type="int", strategy="channel"),
               {"weight": exact, "weight_scale": scale, "weight_zero_point": zero}, exact.bfloat16())


def fp4_codes(shape, seed: int = 8, negative_zero: bool = True) -> torch.Tensor:
    codes = integers(0, 16, shape, seed)
    return codes if negative_zero else torch.where(codes == 8, 0, codes)


def packed_halves(codes: torch.Tensor) -> torch.Tensor:
    return (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)


def make_nvfp4() -> None:
    shape = (24, 64)
    codes = fp4_codes(shape, negative_zero=False)  # the package packs -0 as 0
    scale = (torch.rand((24, 4), generator=torch.Generator().manual_seed(9)) * 400 + 10).to(torch.float8_e4m3fn)
    divisor = torch.tensor([1234.5])
    factor = scale.float() / divisor
    expected = (E2M1[codes] * spread(factor, 1, 16, shape)).bfloat16()
    compressed("nvfp4_compressed_tensors", "nvfp4-pack-quantized",
               dict(num_bits=4, type="float", strategy="tensor_group", group_size=16),
               {"weight": E2M1[codes] * spread(factor, 1, 16, shape), "weight_scale": scale.float(),
                "weight_global_scale": divisor}, expected)
    codes = fp4_codes(shape)
    second = torch.tensor(0.000731)
    write("nvfp4_modelopt", {"quant_method": "modelopt", "quant_algo": "NVFP4"},
          {NAME: packed_halves(codes), NAME + "_scale": scale, NAME + "_scale_2": second},
          {NAME: (E2M1[codes] * spread(scale.float() * second, 1, 16, shape)).bfloat16()})
    before = torch.rand(64, generator=torch.Generator().manual_seed(10)) + 0.5
    values = E2M1[codes] * before
    write("nvfp4_modelopt_awq", {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"},
          {NAME: packed_halves(codes), NAME + "_scale": scale, NAME + "_scale_2": second,
           MODULE + "pre_quant_scale": before},
          {NAME: (values * spread(scale.float() * second, 1, 16, shape)).bfloat16()})


def make_mx() -> None:
    shape = (24, 96)
    codes, exponents = fp4_codes(shape, negative_zero=False), integers(110, 130, (24, 3), 11).to(torch.uint8)
    factor = spread(torch.exp2(exponents.float() - 127), 1, 32, shape)
    compressed("mxfp4_compressed_tensors", "mxfp4-pack-quantized",
               dict(num_bits=4, type="float", strategy="group", group_size=32),
               {"weight": E2M1[codes] * factor, "weight_scale": torch.exp2(exponents.float() - 127)},
               (E2M1[codes] * factor).bfloat16())
    stored = (weights(*shape) * 500).clamp(-448, 448).to(torch.float8_e4m3fn)
    write("mxfp8", {"quant_method": "modelopt", "quant_algo": "MXFP8"}, {NAME: stored, NAME + "_scale": exponents},
          {NAME: (stored.float() * factor).bfloat16()})
    name, experts = "model.layers.0.mlp.experts.gate_up_proj", fp4_codes((3, 16, 64), 12)
    scales = integers(115, 125, (3, 16, 2), 13).to(torch.uint8)
    write("mxfp4_gpt_oss", {"quant_method": "mxfp4"},
          {name + "_blocks": packed_halves(experts).reshape(3, 16, 2, 16), name + "_scales": scales},
          {name: (E2M1[experts] * spread(torch.exp2(scales.float() - 127), 1, 32, (16, 64))).bfloat16()})


def make_modelopt() -> None:
    """Layouts of nvidia-modelopt 0.47: MXFP4 by the plain name, SmoothQuant's factors of the inputs, experts of Llama 4."""
    codes, exponents = fp4_codes((24, 96), 19), integers(110, 130, (24, 3), 20).to(torch.uint8)
    write("mxfp4_modelopt", {"quant_method": "modelopt", "quant_algo": "W4A8_MXFP4_FP8"},
          {NAME: packed_halves(codes), NAME + "_scale": exponents},
          {NAME: (E2M1[codes] * spread(torch.exp2(exponents.float() - 127), 1, 32, (24, 96))).bfloat16()})
    q, scale = integers(-128, 128, (24, 40), 21).to(torch.int8), weights(24, seed=22).abs() + 0.01
    before = torch.rand(40, generator=torch.Generator().manual_seed(23)) + 0.5
    write("int8_modelopt_smoothquant", {"quant_method": "modelopt", "quant_algo": "W8A8_SQ_PER_CHANNEL"},
          {NAME: q, NAME + "_scale": scale, MODULE + "pre_quant_scale": before},
          {NAME: (q.float() * before * scale[:, None]).bfloat16()})
    # [experts, in, out], packed along the inputs; the weight is [experts, out, in]
    name, codes = "model.layers.0.feed_forward.experts.gate_up_proj", fp4_codes((3, 64, 24), 24)
    scale = (torch.rand((3, 4, 24), generator=torch.Generator().manual_seed(25)) * 400 + 10).to(torch.float8_e4m3fn)
    second = torch.tensor(0.000731)
    real = (scale.float() * second).repeat_interleave(16, 1)
    write("nvfp4_modelopt_llama4", {"quant_method": "modelopt", "quant_algo": "NVFP4"},
          {name: packed_halves(codes.transpose(1, 2)).transpose(1, 2), name + "_weight_scale": scale,
           name + "_weight_scale_2": second}, {name: (E2M1[codes] * real).bfloat16().transpose(1, 2)})


def make_fbgemm() -> None:
    """Transposed experts of Llama 4, [experts, in, out]: scales of the outputs, in two layouts."""
    for case, name, scale_shape in (("fbgemm_gate_up", "gate_up_proj", (3, 1, 24)), ("fbgemm_down", "down_proj", (3, 24, 1))):
        name = "model.layers.0.feed_forward.experts." + name
        scale = torch.rand(scale_shape, generator=torch.Generator().manual_seed(26)) * 0.01 + 0.001
        stored = (weights(3, 16, 24, seed=27) * 500).clamp(-448, 448).to(torch.float8_e4m3fn)
        write(case, {"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, {name: stored, name + "_scale": scale},
              {name: (stored.float() * scale.reshape(3, 1, 24)).bfloat16()})


# ------------------------------------------------------------------------------------------------ awq, gptq
def words32(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values >= 2**31, values - 2**32, values).to(torch.int32)


def pack_along(values: torch.Tensor, bits: int, axis: int, order=None) -> torch.Tensor:
    """Elements packed into words of 32 along an axis, the lowest bits first; `order`: which element has nibble i."""
    values = values.long().movedim(axis, -1)
    per_word = 32 // bits
    groups = values.reshape(*values.shape[:-1], -1, per_word)
    order = order or range(per_word)
    words = sum(groups[..., element] << (bits * i) for i, element in enumerate(order))
    return words32(words).movedim(-1, axis)


def make_awq() -> None:
    inputs, outputs, group = 64, 48, 32
    q, zero = integers(0, 16, (inputs, outputs)), integers(0, 16, (inputs // group, outputs), 14)
    scale = (torch.rand((inputs // group, outputs), generator=torch.Generator().manual_seed(15)) * 0.01).half()
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    full = (q - zero.repeat_interleave(group, 0)).float() * scale.float().repeat_interleave(group, 0)
    write("awq", {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"},
          {MODULE + "qweight": pack_along(q, 4, 1, order), MODULE + "qzeros": pack_along(zero, 4, 1, order),
           MODULE + "scales": scale}, {NAME: full.T.bfloat16()})


def make_gptq() -> None:
    inputs, outputs, n_groups = 64, 48, 4
    for case, bits, version, ordered in (("gptq", 4, "gptq", False), ("gptq_v2", 4, "gptq_v2", False),
                                         ("gptq_int8_ordered", 8, "gptq", True)):
        q, zero = integers(0, 1 << bits, (inputs, outputs)), integers(1, 1 << bits, (n_groups, outputs), 16)
        scale = (torch.rand((n_groups, outputs), generator=torch.Generator().manual_seed(17)) * 0.01).half()
        groups = integers(0, n_groups, (inputs,), 18) if ordered else torch.arange(inputs) // (inputs // n_groups)
        full = (q - zero[groups]).float() * scale.float()[groups]
        stored = zero if version == "gptq_v2" else zero - 1
        tensors = {MODULE + "qweight": pack_along(q, bits, 0), MODULE + "qzeros": pack_along(stored, bits, 1),
                   MODULE + "scales": scale}
        if ordered:
            tensors[MODULE + "g_idx"] = groups.to(torch.int32)
        write(case, {"quant_method": "gptq", "bits": bits, "group_size": inputs // n_groups, "desc_act": ordered,
                     "checkpoint_format": version}, tensors, {NAME: full.T.bfloat16()})


def bit_stream(values: torch.Tensor, bits: int, axis: int) -> torch.Tensor:
    """Elements one after the other along an axis, the lowest bits first; one may straddle two words."""
    values = values.long().movedim(axis, -1)
    stream = (values[..., None] >> torch.arange(bits) & 1).flatten(-2).reshape(*values.shape[:-1], -1, 32)
    return words32((stream << torch.arange(32)).sum(-1)).movedim(-1, axis)


def make_gptq_streams() -> None:
    """3 bits; AutoRound's packing, whose zero points are as they are; groups of which the last is cut off."""
    round_ = {"quant_method": "auto-round", "data_type": "int", "sym": False}
    for case, bits, inputs, group, less, config in (
            ("gptq_int3", 3, 96, 32, 1, {"quant_method": "gptq", "desc_act": False}),
            ("gptq_cut_group", 4, 96, 64, 1, {"quant_method": "gptq", "desc_act": False}),
            ("auto_round", 4, 96, 32, 0, round_ | {"packing_format": "auto_round"}),
            ("auto_round_gptqmodel", 2, 96, 96, 0, round_ | {"packing_format": "auto_round:gptqmodel"}),
            ("auto_round_gptq", 5, 96, 32, 1, round_ | {"packing_format": "auto_round:auto_gptq"})):
        outputs, n_groups = 32, -(-inputs // group)
        q, zero = integers(0, 1 << bits, (inputs, outputs), 28), integers(less, 1 << bits, (n_groups, outputs), 29)
        scale = (torch.rand((n_groups, outputs), generator=torch.Generator().manual_seed(30)) * 0.01).half()
        groups = torch.arange(inputs) // group
        write(case, config | {"bits": bits, "group_size": group},
              {MODULE + "qweight": bit_stream(q, bits, 0), MODULE + "qzeros": bit_stream(zero - less, bits, 1),
               MODULE + "scales": scale},
              {NAME: ((q - zero[groups]).float() * scale.float()[groups]).T.bfloat16()})


if __name__ == "__main__":
    for make in (make_fp8, make_pack_quantized, make_pack_ordered, make_int8, make_nvfp4, make_mx, make_modelopt,
                 make_fbgemm, make_awq, make_gptq, make_gptq_streams):
        make()
