"""Random checkpoints packed and unpacked by the tools that write them: compressed-tensors, ModelOpt, AutoAWQ,
AutoRound, Quark."""

import contextlib
import copy
import importlib.util
import io

import torch

from formats import E2M1, MODULE, Variant, exponents, quantization, scales, spread

NAME = MODULE + ".weight"
PACKAGES = {"compressed_tensors": "compressed", "modelopt": "modelopt", "awq": "awq", "auto_round_extension": "auto_round",
            "quark": "quark"}


# ------------------------------------------------------------------------------------------------ compressed-tensors
def compressed_formats() -> dict:
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    def variant(rng, name: str, args: dict, state: dict, note: str) -> Variant:
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))
        compressor = BaseCompressor.get_value_from_registry(name)
        packed = compressor.compress(state, scheme)
        wide = {k: v.float() if k == "weight_scale" and v.dtype.is_floating_point and v.element_size() > 1 else v
                for k, v in packed.items()}  # the package multiplies in the scale's dtype
        weight = compressor.decompress(wide, scheme)["weight"].bfloat16()
        config = {"quant_method": "compressed-tensors", "format": name, "ignore": ["lm_head", "re:.*gate$"],
                  "config_groups": {"group_0": {"targets": [rng.choice(["Linear", "re:.*proj"])], "weights": args}}}
        where = rng.choice(["quantization_config", "compression_config"])
        return Variant(note, {where: config}, {f"{MODULE}.{k}": v for k, v in packed.items()}, {NAME: weight})

    def drawn(rng, shape, grid, rows, columns, low, high, symmetric):
        """Integers, scales and zero points without error, as what is to be packed."""
        scale = scales(grid, rng.choice([torch.float32, torch.bfloat16, torch.float16]))
        zero = torch.randint(low, high, grid) if not symmetric else torch.zeros(grid, dtype=torch.long)
        q = torch.randint(low, high, shape)
        weight = (q - spread(zero, rows, columns, shape)) * spread(scale, rows, columns, shape)
        return {"weight": weight, "weight_scale": scale, "weight_zero_point": zero.to(torch.int8)}

    def integers(rng, name, all_bits, all_sizes):
        bits, symmetric, size = rng.choice(all_bits), rng.random() < 0.5, rng.choice(all_sizes)
        shape = (rng.randint(1, 70), rng.randint(1, 200) if size < 0 else size * rng.randint(1, 4))
        group = shape[1] if size < 0 else size
        state = drawn(rng, shape, (shape[0], shape[1] // group), 1, group, -(1 << bits - 1), 1 << bits - 1, symmetric)
        args = dict(num_bits=bits, type="int", symmetric=symmetric,
                    **(dict(strategy="channel") if size < 0 else dict(strategy="group", group_size=size)))
        return variant(rng, name, args, state, f"{bits} bits {shape} group {size} symmetric {symmetric}")

    def pack_quantized(rng):
        return integers(rng, "pack-quantized", [4, 4, 8, 2, 3, 5, 6, 7], [32, 64, 128, -1])

    def int_quantized(rng):
        return integers(rng, rng.choice(["int-quantized", "naive-quantized"]), [8], [32, 128, -1])

    def float_quantized(rng):
        strategy, shape = rng.choice(["tensor", "channel", "block"]), (rng.randint(1, 200), rng.randint(1, 200))
        block = rng.choice([[128, 128], [64, 32]])
        args, grid, size = dict(strategy=strategy), {"tensor": (1,), "channel": (shape[0], 1)}.get(strategy), (1, shape[1])
        if strategy == "block":
            args["block_structure"], size = block, block
            grid = (-(-shape[0] // block[0]), -(-shape[1] // block[1]))
        scale = scales(grid, rng.choice([torch.float32, torch.bfloat16]))
        state = {"weight": torch.randn(shape), "weight_scale": scale}
        if strategy == "block":  # the package pads what it packs, and not what it unpacks
            padded = [n * b for n, b in zip(grid, block)]
            full = variant(rng, "float-quantized", dict(num_bits=8, type="float", **args),
                           {"weight": torch.randn(padded), "weight_scale": scale}, f"{shape} {args}")
            for d in (full.tensors, full.expected):
                d[NAME] = d[NAME].view(torch.uint8 if d is full.tensors else torch.int16)[: shape[0], : shape[1]]
            full.tensors[NAME] = full.tensors[NAME].contiguous().view(torch.float8_e4m3fn)
            full.expected[NAME] = full.expected[NAME].contiguous().view(torch.bfloat16)
            return full
        return variant(rng, "float-quantized", dict(num_bits=8, type="float", **args), state, f"{shape} {args}")

    def nvfp4(rng):
        shape = (rng.randint(1, 60), 16 * rng.randint(1, 8))
        scale = (torch.rand(shape[0], shape[1] // 16) * 400 + 10).to(torch.float8_e4m3fn).float()
        state = {"weight": torch.randn(shape) * 0.5, "weight_scale": scale,
                 "weight_global_scale": torch.rand(1) * 1000 + 100}
        return variant(rng, "nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16),
                       state, f"{shape}")

    def mx(rng):
        shape = (rng.randint(1, 60), 32 * rng.randint(1, 4))
        bits = rng.choice([4, 8])
        state = {"weight": torch.randn(shape), "weight_scale": torch.exp2(exponents((shape[0], shape[1] // 32)).float() - 127)}
        return variant(rng, "mxfp4-pack-quantized" if bits == 4 else "mxfp8-quantized",
                       dict(num_bits=bits, type="float", strategy="group", group_size=32), state, f"{bits} bits {shape}")

    return {f"compressed_{f.__name__}": f for f in (pack_quantized, int_quantized, float_quantized, nvfp4, mx)}


# ------------------------------------------------------------------------------------------------ ModelOpt
def modelopt_formats() -> dict:
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export.convert_hf_config import convert_hf_quant_config_format
    from modelopt.torch.export.quant_utils import postprocess_state_dict, process_layer_quant_config, get_quantization_format
    from modelopt.torch.export.unified_export_hf import _export_quantized_weight

    configs = ["FP8_DEFAULT_CFG", "FP8_PER_CHANNEL_PER_TOKEN_CFG", "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", "INT8_DEFAULT_CFG",
               "INT8_SMOOTHQUANT_CFG", "INT8_WEIGHT_ONLY_CFG", "MXFP4_DEFAULT_CFG", "MXFP8_DEFAULT_CFG", "NVFP4_DEFAULT_CFG",
               "W4A16_NVFP4_CFG", "W4A8_MXFP4_FP8_CFG", "W4A8_NVFP4_FP8_CFG", "INT4_AWQ_CFG", "W4A8_AWQ_BETA_CFG"]
    configs = [c for c in configs if hasattr(mtq, c)]

    def product(tensors: dict, shape) -> torch.Tensor:
        """Stored value times scale, by the tool's description of each format."""
        weight, scale = tensors["weight"], tensors["weight_scale"]
        real = scale.float() if scale.dtype != torch.uint8 else torch.exp2(scale.float() - 127)
        real = real[:, 0, :, 0] if real.ndim == 4 else real
        real = real * tensors.get("weight_scale_2", torch.tensor(1.0))
        if real.ndim == 1:
            real = real.reshape(-1, 1)
        if real.ndim == 2:
            real = spread(real, shape[0] // real.shape[0], shape[1] // real.shape[1], shape)
        values = weight.float()
        if weight.dtype == torch.uint8:
            values = E2M1[torch.stack((weight & 15, weight >> 4), 2).reshape(shape).long()]
        if "pre_quant_scale" in tensors:
            values = values * tensors["pre_quant_scale"].float()
        return (values * real).bfloat16()

    def modelopt(rng) -> Variant:
        name, shape = rng.choice(configs), (128 * rng.randint(1, 2), 128 * rng.randint(1, 3))

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.up_proj = torch.nn.Linear(shape[1], shape[0], bias=False)

            def forward(self, x):
                return self.up_proj(x)

        with contextlib.redirect_stdout(io.StringIO()), torch.enable_grad():
            model = mtq.quantize(Model().bfloat16(), copy.deepcopy(getattr(mtq, name)),
                                 lambda m: m(torch.randn(8, shape[1]).bfloat16()))
        layer = get_quantization_format(model.up_proj)
        _export_quantized_weight(model.up_proj, torch.bfloat16)
        tensors = {k.removeprefix("up_proj."): v for k, v in postprocess_state_dict(model.state_dict(), 448, None).items()}
        written = {"producer": {"name": "modelopt"}, "quantization": process_layer_quant_config(
            {MODULE + ".quantization": layer, MODULE + ".awq_block_size": 16})}
        place = rng.choice(["config", "file", "both"])
        config = {} if place == "file" else {"quantization_config": convert_hf_quant_config_format(written)}
        files = {} if place == "config" else {"hf_quant_config.json": written}
        int4 = "AWQ" in name
        expected = torch.zeros(shape).bfloat16() if int4 else product(tensors, shape)
        return Variant(f"{name} {shape} {place}", config, {f"{MODULE}.{k}": v.clone() for k, v in tensors.items()},
                       {NAME: expected}, ("INT4 of ModelOpt",) if int4 else (), files)

    return {"modelopt": modelopt}


# ------------------------------------------------------------------------------------------------ AWQ, GPTQ
def grouped(rng, bits: int, zero_low: int, multiple: int = 32):
    """A layer whose weights the scales and zero points [out, groups] quantise without error."""
    size = rng.choice([32, 64, 128, -1])
    inputs = multiple * rng.randint(1, 4) if size < 0 else max(size, multiple) * rng.randint(1, 3)
    outputs, groups = 32 * rng.randint(1, 3), 1 if size < 0 else inputs // size
    group = inputs // groups
    scale, zero = scales((outputs, groups), torch.half), torch.randint(zero_low, 1 << bits, (outputs, groups))
    q = torch.randint(0, 1 << bits, (outputs, inputs))
    linear = torch.nn.Linear(inputs, outputs, bias=False)
    linear.weight.data = (q - spread(zero, 1, group, q.shape)) * spread(scale, 1, group, q.shape)
    return linear, scale, zero, group, size


def awq_formats() -> dict:
    from awq.modules.linear.gemm import WQLinear_GEMM
    from awq.utils.packing_utils import dequantize_gemm

    def awq(rng) -> Variant:
        linear, scale, zero, group, size = grouped(rng, 4, 0)
        layer = WQLinear_GEMM.from_linear(linear, 4, group, False, scale.T.float(), zero.T)
        weight = dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, group).T
        config = {"quant_method": "awq", "bits": 4, "group_size": size, "version": "gemm", "zero_point": True,
                  "modules_to_not_convert": None}
        return Variant(f"{tuple(weight.shape)} group {size}", quantization(config, rng),
                       {f"{MODULE}.{k}": v for k, v in layer.state_dict().items()}, {NAME: weight.bfloat16()})

    return {"awq": awq}


def auto_round_formats() -> dict:
    from auto_round_extension.torch import qlinear_torch, qlinear_torch_zp

    def auto_round(rng) -> Variant:
        bits, packing = rng.choice([2, 3, 4, 5, 6, 7, 8]), rng.choice(["auto_round:auto_gptq", "auto_round", None, "auto_round:gptqmodel"])
        raw = packing in ("auto_round", "auto_round:gptqmodel")
        linear, scale, zero, group, size = grouped(rng, bits, 0 if raw else 1)
        if rng.random() < 0.3:  # symmetric, as one number
            zero = torch.full_like(zero, 1 << bits - 1)
            linear.weight.data = linear.weight.data * 0 + torch.randint(-(1 << bits - 1), 1 << bits - 1, linear.weight.shape) * \
                spread(scale, 1, group, linear.weight.shape)
        source = qlinear_torch if raw else qlinear_torch_zp
        layer = source.QuantLinear(bits, size, linear.in_features, linear.out_features, False,
                                   g_idx=packing == "auto_round:gptqmodel")
        layer.device = "cpu"
        layer.pack(linear, scale.float(), zero.float(), None, "cpu")
        tensors = {f"{MODULE}.{k}": v.clone() for k, v in layer.state_dict().items() if v is not None}
        config = {"quant_method": "auto-round", "bits": bits, "group_size": size, "sym": False, "data_type": "int",
                  "autoround_version": "0.16.1", "extra_config": {"lm_head": {"bits": 16}}}
        if packing:
            config["packing_format"] = packing
        if not packing and rng.random() < 0.5:
            config |= {"quant_method": "gptq", "desc_act": False, "damp_percent": 0.01}
        return Variant(f"{bits} bits {tuple(linear.weight.shape)} group {size} {packing}", quantization(config, rng), tensors,
                       {NAME: linear.weight.data.bfloat16()})

    return {"auto_round": auto_round}


# ------------------------------------------------------------------------------------------------ Quark
def quark_formats() -> dict:
    from quark.torch.utils.pack import Pack_8_bits, Pack_fp4, Pack_4_bits

    def quark(rng) -> Variant:
        shape = (8 * rng.randint(1, 8), 64 * rng.randint(1, 3))
        kind = rng.choice(["fp4", "fp8_e4m3", "int8", "int4"])
        spec = {"dtype": kind, "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0", "ch_axis": -1}
        refused = ()
        if kind == "fp4":
            values = E2M1[torch.randint(0, 16, shape)]
            scale = exponents((shape[0], shape[1] // 32))
            stored = Pack_fp4("per_group", "fp4").pack(values, False)
            weight = Pack_fp4("per_group", "fp4").unpack(stored, False) * spread(torch.exp2(scale.float() - 127), 1, 32, shape)
        elif kind == "int4":
            spec = {"dtype": "int4", "qscheme": "per_group", "group_size": 32}
            stored = Pack_4_bits("per_group", "int4").pack(torch.randint(-8, 8, shape))
            scale, weight, refused = scales((shape[1] // 32, shape[0])), torch.zeros(shape), ("quark", MODULE, "use ")
        else:
            spec = {"dtype": kind, "qscheme": rng.choice(["per_tensor", "per_channel"])}
            scale = scales(() if spec["qscheme"] == "per_tensor" else (shape[0],))
            q = torch.randint(-128, 128, shape) if kind == "int8" else torch.randn(shape) * 50
            stored = Pack_8_bits(spec["qscheme"], kind).pack(q, False) if kind == "int8" else q.to(torch.float8_e4m3fn)
            weight = stored.float() * (scale.reshape(-1, 1) if scale.ndim else scale)
        config = {"quant_method": "quark", "global_quant_config": {"weight": spec}, "exclude": ["lm_head"],
                  "export": {"pack_method": "reorder", "weight_format": "real_quantized"}}
        return Variant(f"{kind} {shape} {spec['qscheme']}", quantization(config, rng),
                       {NAME: stored, NAME + "_scale": scale}, {NAME: weight.bfloat16()}, refused)

    return {"quark": quark}


MAKERS = {"compressed_tensors": compressed_formats, "modelopt": modelopt_formats, "awq": awq_formats,
          "auto_round_extension": auto_round_formats, "quark": quark_formats}


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def available() -> dict:
    formats = {}
    for package, make in MAKERS.items():
        if installed(package):
            formats |= make()
    return formats


def absent() -> dict:
    return {p: (PACKAGES[p],) for p in MAKERS if not installed(p)}
