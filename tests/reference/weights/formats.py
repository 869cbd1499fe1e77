"""Random checkpoints of formats whose packing is a public description and no package: the stored values are drawn, and
the weight is their product with the scales in f32, rounded to bf16 once."""

from dataclasses import dataclass, field

import torch

MODULE = "model.layers.0.mlp.up_proj"
EXPERTS = "model.layers.0.mlp.experts.gate_up_proj"
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@dataclass
class Variant:
    note: str
    config: dict  # of config.json
    tensors: dict
    expected: dict  # by plain name, in bf16
    refused: tuple[str, ...] = ()
    files: dict = field(default_factory=dict)  # others, by name


def spread(scale: torch.Tensor, rows: int, columns: int, shape) -> torch.Tensor:
    """Each scale repeated over its rectangle of rows x columns, cut to the weight's shape."""
    full = scale.float().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    return full[..., : shape[-2], : shape[-1]]


def scales(shape, dtype=torch.float32) -> torch.Tensor:
    return (torch.rand(shape) * 0.01 + 0.001).to(dtype)


def exponents(shape) -> torch.Tensor:
    return torch.randint(112, 130, shape).to(torch.uint8)


def fp8(shape) -> torch.Tensor:
    return (torch.randn(shape) * 60).clamp(-448, 448).to(torch.float8_e4m3fn)


def codes(shape) -> torch.Tensor:
    return torch.randint(0, 16, shape)


def halves(values: torch.Tensor, axis: int = -1) -> torch.Tensor:
    even, odd = values.movedim(axis, -1)[..., 0::2], values.movedim(axis, -1)[..., 1::2]
    return (even | odd << 4).to(torch.uint8).movedim(-1, axis)


def quantization(config: dict, rng) -> dict:
    """Where a config may stand."""
    return rng.choice([{"quantization_config": config}, {"text_config": {"quantization_config": config}}])


def fp8_blocks(rng) -> Variant:
    block = rng.choice([[128, 128], [64, 128], [32, 32], [1, 128], [128, 64]])
    experts = rng.choice([0, 0, 3])
    shape = (rng.randint(1, 300), rng.randint(1, 300))
    if block[0] == 1:  # groups of columns: no ragged end in any file seen
        shape = (shape[0], 128 * rng.randint(1, 3))
    name = EXPERTS if experts else MODULE + ".weight"
    full = ((experts,) if experts else ()) + shape
    grid = full[:-2] + (-(-shape[0] // block[0]), -(-shape[1] // block[1]))
    kind = rng.choice(["f32", "bf16", "e8m0", "u8"])
    stored = fp8(full)
    if kind in ("e8m0", "u8"):
        scale = exponents(grid)
        real = torch.exp2(scale.float() - 127)
        scale = scale.view(torch.float8_e8m0fnu) if kind == "e8m0" else scale
    else:
        scale = scales(grid, torch.float32 if kind == "f32" else torch.bfloat16)
        real = scale.float()
    suffix = rng.choice(["_scale_inv", "_scale"])
    return Variant(f"{full} blocks {block} {kind} {suffix}",
                   quantization({"quant_method": "fp8", "weight_block_size": block, "activation_scheme": "dynamic"}, rng),
                   {name: stored, name + suffix: scale},
                   {name: (stored.float() * spread(real, *block, shape)).bfloat16()})


def fp8_whole(rng) -> Variant:
    """One scale, or one a row: of a weight, of all experts, of each."""
    experts, shape = rng.choice([0, 0, 3]), (rng.randint(2, 70), rng.randint(2, 70))
    full = ((experts,) if experts else ()) + shape
    choices = [(), (1,), (1, 1)] + ([(experts,), (experts, 1, 1), (experts, shape[0], 1)] if experts
                                    else [(shape[0],), (shape[0], 1)])
    scale = scales(rng.choice(choices), rng.choice([torch.float32, torch.bfloat16]))
    name, stored = EXPERTS if experts else MODULE + ".weight", fp8(full)
    real = scale.float()
    if scale.numel() == 1:
        real = real.reshape(())
    elif experts and scale.ndim == 1:
        real = real.reshape(-1, 1, 1)
    elif not experts and scale.ndim == 1:
        real = real.reshape(-1, 1)
    suffix = rng.choice(["_scale_inv", "_scale"] + (["_weight_scale"] if experts else []))
    return Variant(f"{full} scale {tuple(scale.shape)} {suffix}", quantization({"quant_method": "fp8"}, rng),
                   {name: stored, name + suffix: scale}, {name: (stored.float() * real).bfloat16()})


def fp8_llama4(rng) -> Variant:
    """Transposed experts [E, in, out] with a scale for each output: fbgemm_fp8."""
    experts, rows, columns = 3, rng.randint(3, 50), rng.randint(3, 50)
    stored, scale = fp8((experts, rows, columns)), scales((experts, 1, columns))
    return Variant(f"{stored.shape}", quantization({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, rng),
                   {EXPERTS: stored, EXPERTS + "_scale": scale}, {EXPERTS: (stored.float() * scale).bfloat16()})


def mxfp4_gpt_oss(rng) -> Variant:
    shape = (rng.randint(1, 4), 2 * rng.randint(1, 20), 32 * rng.randint(1, 4))
    values, scale = codes(shape), exponents((*shape[:2], shape[2] // 32))
    return Variant(f"{shape}", quantization({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, rng),
                   {EXPERTS + "_blocks": halves(values).reshape(*shape[:2], -1, 16), EXPERTS + "_scales": scale},
                   {EXPERTS: (E2M1[values] * spread(torch.exp2(scale.float() - 127), 1, 32, shape)).bfloat16()})


def words32(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values >= 2**31, values - 2**32, values).to(torch.int32)


def bit_stream(values: torch.Tensor, bits: int, axis: int) -> torch.Tensor:
    """Elements one after the other along an axis, lowest bits first, in words of 32."""
    values = values.long().movedim(axis, -1)
    flat = (values[..., None] >> torch.arange(bits) & 1).flatten(-2)
    flat = torch.nn.functional.pad(flat, (0, -flat.shape[-1] % 32)).reshape(*values.shape[:-1], -1, 32)
    return words32((flat << torch.arange(32)).sum(-1)).movedim(-1, axis)


def gptq_ordered(rng) -> Variant:
    """Groups in any order, as desc_act makes them, by the layout of the paper's own code."""
    bits, version = rng.choice([2, 3, 4, 8]), rng.choice(["gptq", "gptq_v2"])
    inputs, outputs, groups = 32 * rng.randint(2, 6), 32 * rng.randint(1, 3), rng.randint(2, 5)
    low = 1 if version == "gptq" else 0
    q, zero = torch.randint(0, 1 << bits, (inputs, outputs)), torch.randint(low, 1 << bits, (groups, outputs))
    order, scale = torch.randint(0, groups, (inputs,)), scales((groups, outputs), rng.choice([torch.half, torch.bfloat16]))
    config = {"quant_method": "gptq", "bits": bits, "group_size": -(-inputs // groups), "desc_act": True, "sym": False}
    if version == "gptq_v2" or rng.random() < 0.5:
        config["checkpoint_format"] = version
    tensors = {MODULE + ".qweight": bit_stream(q, bits, 0), MODULE + ".qzeros": bit_stream(zero - low, bits, 1),
               MODULE + ".scales": scale, MODULE + ".g_idx": order.int()}
    weight = (q - zero[order]).float() * scale.float()[order]
    return Variant(f"{bits} bits {version} {inputs}x{outputs}", quantization(config, rng), tensors,
                   {MODULE + ".weight": weight.T.bfloat16()})


def nvfp4_llama4(rng) -> Variant:
    """ModelOpt's experts of Llama 4: packed along the inputs, then laid as [E, in / 2, out]."""
    experts, rows, columns = 3, 16 * rng.randint(1, 4), rng.randint(3, 40)
    values, scale = codes((experts, rows, columns)), (torch.rand(experts, rows // 16, columns) * 400).to(torch.float8_e4m3fn)
    second = scales(())
    real = (scale.float() * second).repeat_interleave(16, 1)
    tensors = {EXPERTS: halves(values, 1), EXPERTS + "_weight_scale": scale, EXPERTS + "_weight_scale_2": second}
    return Variant(f"{values.shape}", quantization({"quant_method": "modelopt", "quant_algo": "NVFP4"}, rng), tensors,
                   {EXPERTS: (E2M1[values] * real).bfloat16().transpose(1, 2)})


REFUSED = (
    ("bitsandbytes", {"load_in_4bit": True}, {".weight": torch.zeros(8 * 32, 1, dtype=torch.uint8),
                                              ".weight.absmax": torch.zeros(8)}),
    ("bitsandbytes", {"load_in_8bit": True}, {".weight": torch.zeros(8, 64, dtype=torch.int8), ".SCB": torch.ones(8)}),
    ("hqq", {}, {".W_q": torch.zeros(8, 32, dtype=torch.uint8), ".scale": torch.ones(8, 1)}),
    ("aqlm", {}, {".codes": torch.zeros(8, 8, 2, dtype=torch.int8), ".codebooks": torch.zeros(2, 256, 1, 8)}),
    ("vptq", {}, {".indices": torch.zeros(1, 8, 8, dtype=torch.int32), ".centroids.weight": torch.zeros(1, 64)}),
    ("spqr", {}, {".dense_weights": torch.zeros(8, 8, dtype=torch.int64)}),
    ("eetq", {}, {".weight": torch.zeros(64, 8, dtype=torch.int8), ".weight_scales": torch.ones(8)}),
    ("quanto", {}, {".weight._data": torch.zeros(8, 64, dtype=torch.int8), ".weight._scale": torch.ones(8, 1)}),
    ("torchao", {"quant_type": {}}, {".weight": torch.zeros(8, 64, dtype=torch.int8)}),
    ("fp_quant", {}, {".qweight": torch.zeros(8, 32, dtype=torch.uint8), ".scales": torch.zeros(8, 2, dtype=torch.uint8)}),
    ("higgs", {}, {".weight": torch.zeros(8, 32, dtype=torch.int16)}),
    ("bitnet", {}, {".weight": torch.zeros(2, 64, dtype=torch.uint8), ".weight_scale": torch.ones(1)}),
    ("compressed-tensors", {"format": "sparse-bitmask"},
     {".weight.compressed": torch.zeros(9), ".weight.bitmask": torch.zeros(8, 8, dtype=torch.uint8),
      ".weight.shape": torch.tensor([8, 64]), ".weight.row_offsets": torch.zeros(8, 1, dtype=torch.int64)}),
    ("compressed-tensors", {"format": "marlin-24"},
     {".weight_packed": torch.zeros(2, 16, dtype=torch.int32), ".meta": torch.zeros(2, 16, dtype=torch.int16),
      ".scale_packed": torch.ones(1, 8)}),
    ("gptq", {"checkpoint_format": "marlin"}, {".B": torch.zeros(4, 16, dtype=torch.int32), ".s": torch.ones(1, 8)}),
    ("awq", {"version": "gemv"}, {".qweight": torch.zeros(8, 8, dtype=torch.int32), ".qzeros": torch.zeros(8, 1).int(),
                                  ".scales": torch.ones(8, 1)}),
    ("awq", {"bits": 8}, {".qweight": torch.zeros(64, 2, dtype=torch.int32), ".qzeros": torch.zeros(1, 2).int(),
                          ".scales": torch.ones(1, 8)}),
)


def refused(rng) -> Variant:
    method, config, tensors = rng.choice(REFUSED)
    name = config.get("format") or config.get("version") or method
    return Variant(f"{method} {config}", {"quantization_config": {"quant_method": method} | config},
                   {MODULE + k: v for k, v in tensors.items()}, {MODULE + ".weight": torch.zeros(8, 64).bfloat16()},
                   (MODULE, name, "use "))


ALL = {f.__name__: f for f in (fp8_blocks, fp8_whole, fp8_llama4, mxfp4_gpt_oss, gptq_ordered, nvfp4_llama4, refused)}
