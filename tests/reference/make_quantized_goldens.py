"""Makes the goldens of quantised checkpoints: those of tests/arch/golden with their weights quantised, and what the
reference framework computes with the dequantised weights.

    python make_quantized_goldens.py [CASE...]

Weights alone: tests/arch/golden/<case>, the plain forward pass. With activations: tests/arch/activation/<case>, where
the inputs of quantised layers are rounded as the server of such a checkpoint rounds them. The formulas are those of
vLLM's kernels (csrc/quantization/w8a8/fp8/common.cu and per_token_group_quant.cu), written here with torch's own
float8_e4m3fn. Of fused layers (q, k, v; gate, up; all experts) the largest static scale serves all, as there.
"""

import argparse
import dataclasses
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

import make_arch_goldens as arch
from cases import CASES
from json_lines import write_json

ROOT = Path(__file__).resolve().parents[1] / "arch"
MOST = 448.0
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "q_a_proj", "q_b_proj",
               "kv_a_proj_with_mqa", "kv_b_proj", "w1", "w2", "w3")


# ------------------------------------------------------------------------------------------------ weights
def e4m3(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-MOST, MOST).to(torch.float8_e4m3fn)


def channel_weight(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    scale = (weight.abs().amax(1, keepdim=True) / MOST).bfloat16()
    return {"weight": e4m3(weight / scale.float()), "weight_scale": scale}


def tensor_weight(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    scale = weight.abs().amax() / MOST
    return {"weight": e4m3(weight / scale), "weight_scale": scale}


def block_weight(size: int, suffix: str = "weight_scale_inv"):
    def quantize(weight: torch.Tensor) -> dict[str, torch.Tensor]:
        rows, columns = weight.shape
        scale = torch.nn.functional.max_pool2d(weight.abs()[None], size, ceil_mode=True)[0] / MOST
        return {"weight": e4m3(weight / spread(scale, size, size, rows, columns)), suffix: scale}

    return quantize


def nvfp4_weight(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    """As ModelOpt: groups of 16 with E4M3 scales, which one f32 scale brings into range."""
    groups = weight.reshape(weight.shape[0], -1, 16)
    second = weight.abs().amax() / (6 * MOST)
    scale = e4m3(groups.abs().amax(2) / 6 / second)
    real = (groups / (scale.float() * second)[..., None]).nan_to_num()
    codes = (real.abs()[..., None] - E2M1).abs().argmin(-1) + 8 * (real < 0)
    codes = codes.reshape(weight.shape)
    return {"weight": (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8), "weight_scale": scale,
            "weight_scale_2": second}


def spread(scale: torch.Tensor, down: int, right: int, rows: int, columns: int) -> torch.Tensor:
    return scale.float().repeat_interleave(down, 0).repeat_interleave(right, 1)[:rows, :columns]


def dequantized(stored: dict[str, torch.Tensor], size: int) -> torch.Tensor:
    """The product of stored value and scale in f32, rounded to bf16 once."""
    weight = stored["weight"]
    if weight.dtype == torch.uint8:
        signed = torch.cat((E2M1, -E2M1))
        values = signed[torch.stack((weight & 15, weight >> 4), 2).reshape(weight.shape[0], -1).long()]
        return (values * spread(stored["weight_scale"].float() * stored["weight_scale_2"], 1, 16, *values.shape)).bfloat16()
    scale = next(t for name, t in stored.items() if name.startswith("weight_scale"))
    full = spread(scale, size, size, *weight.shape) if scale.ndim == 2 and scale.shape[1] > 1 else scale.float()
    return (weight.float() * full).bfloat16()


# ------------------------------------------------------------------------------------------------ activations
def rounded(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (e4m3((x / scale).float()).to(x.dtype) * scale).to(x.dtype)


def by_token(x: torch.Tensor) -> torch.Tensor:
    wide = x.float() if x.dtype == torch.bfloat16 else x
    scale = (wide.abs().amax(-1, keepdim=True) / MOST).clamp(min=1 / (MOST * 512))
    return rounded(wide, scale).to(x.dtype)


def by_group(size: int):
    def function(x: torch.Tensor) -> torch.Tensor:
        wide = x.float() if x.dtype == torch.bfloat16 else x
        parts = []
        for part in wide.split(size, -1):
            parts.append(rounded(part, part.abs().amax(-1, keepdim=True).clamp(min=1e-10) / MOST))
        return torch.cat(parts, -1).to(x.dtype)

    return function


def by_tensor(scale: float):
    def function(x: torch.Tensor) -> torch.Tensor:
        wide = x.float() if x.dtype == torch.bfloat16 else x
        fixed = torch.tensor(scale, dtype=torch.float32)
        stored = e4m3((wide * (1 / fixed).to(wide.dtype)).float())
        return (stored.to(wide.dtype) * fixed.to(wide.dtype)).to(x.dtype)

    return function


class Rounding:
    """Rounds the inputs of quantised layers of a model: linear layers by a hook, fused experts inside torch's linear."""

    def __init__(self, chosen: Callable[[str], Callable | None]):
        self.chosen, self.seen, self.inside = chosen, {}, []

    def watch(self, model) -> None:
        for name, module in model.named_modules():
            if type(module).__name__.endswith("Experts"):
                module.register_forward_pre_hook(lambda m, args, name=name: self.inside.append((name, m)))
                module.register_forward_hook(lambda m, args, output: self.inside.pop() and None)
            elif isinstance(module, torch.nn.Linear) and not name.endswith("lm_head"):
                module.register_forward_pre_hook(lambda m, args, name=name: (self.input(name, args[0]),))

    def input(self, name: str, x: torch.Tensor) -> torch.Tensor:
        self.seen[name] = max(self.seen.get(name, 0.0), x.abs().max().item() if x.numel() else 0.0)
        function = self.chosen(name)
        return function(x) if function else x

    def __enter__(self):
        self.linear, self.load = torch.nn.functional.linear, arch.load

        def linear(x, weight, bias=None):
            if self.inside:
                name, experts = self.inside[-1]
                part = "down_proj" if weight.shape == experts.down_proj.shape[1:] else "gate_up_proj"
                x = self.input(f"{name}.{part}", x)
            return self.linear(x, weight, bias)

        def load(case, folder, precision):
            model = self.load(case, folder, precision)
            self.watch(model)
            return model

        torch.nn.functional.linear, arch.load = linear, load
        return self

    def __exit__(self, *_):
        torch.nn.functional.linear, arch.load = self.linear, self.load


# ------------------------------------------------------------------------------------------------ cases
@dataclass(frozen=True)
class Quantized:
    name: str
    base: str  # the golden whose weights are quantised
    note: str
    weight: Callable[[torch.Tensor], dict]
    config: dict  # quantization_config
    block: int = 0
    only: str = ""  # part of the names of quantised weights; all projections without
    ignored: str = "-"  # part of the names that stay as they are
    activations: str = ""  # what calibrate records: "fp8_token", ...
    function: Callable | None = None  # of activations; static ones come from the reference itself
    lengths: tuple[int, ...] = ()


def compressed(weights: dict, activations: dict, ignore: list) -> dict:
    return {"quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ignore, "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "symmetric": True, **weights},
                    "input_activations": {"num_bits": 8, "type": "float", "symmetric": True, **activations}}}}


def fp8_blocks(size: int) -> dict:
    return {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [size, size]}


SHORT = (5, 14, 20)
ALL = (
    Quantized("llama_fp8_token", "llama", "FP8 by channel, inputs by token; o_proj of all layers is left as it is",
              channel_weight, compressed({"strategy": "channel"}, {"strategy": "token", "dynamic": True},
                                         ["lm_head", "re:.*o_proj"]),
              ignored="o_proj", activations="fp8_token", function=by_token, lengths=SHORT),
    Quantized("qwen3_fp8_block", "qwen3", "FP8 in blocks, inputs in groups of a block's length", block_weight(16),
              fp8_blocks(16), block=16, activations="fp8_group_16", function=by_group(16), lengths=SHORT),
    Quantized("llama_fp8_static", "llama", "FP8 with one scale, inputs with a static one, as ModelOpt writes them; those "
              "of q, k and v, gate and up differ", tensor_weight,
              {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, activations="fp8_tensor",
              lengths=SHORT),
    Quantized("qwen3_moe_fp8_block", "qwen3_moe", "FP8 in blocks, inputs of experts and of their hidden half in groups",
              block_weight(8), fp8_blocks(8), block=8, activations="fp8_group_8", function=by_group(8), lengths=(5, 14)),
    Quantized("deepseek_v3_fp8_block", "deepseek_v3", "latent attention and experts in FP8 blocks, inputs in groups",
              block_weight(8), fp8_blocks(8), block=8, activations="fp8_group_8", function=by_group(8), lengths=(4, 7)),
    Quantized("qwen3_moe_fp8_static", "qwen3_moe", "a static scale for the inputs of every expert, of which the largest "
              "serves all", tensor_weight, {"quant_method": "fp8", "activation_scheme": "static"},
              activations="fp8_tensor", lengths=(5, 14)),
    Quantized("qwen3_moe_fp8", "qwen3_moe", "attention and experts in FP8 blocks", block_weight(8), fp8_blocks(8),
              block=8),
    Quantized("glm4_moe_fp8", "glm4_moe", "attention and experts in FP8 blocks", block_weight(8), fp8_blocks(8), block=8,
              lengths=(7, 33)),
    Quantized("deepseek_v3_fp8", "deepseek_v3", "latent attention and experts in FP8 blocks", block_weight(8),
              fp8_blocks(8), block=8),
    Quantized("minimax_m2_fp8", "minimax_m2", "attention and experts in FP8 blocks", block_weight(8), fp8_blocks(8),
              block=8),
    Quantized("deepseek_v3_nvfp4", "deepseek_v3", "experts in NVFP4 of ModelOpt", nvfp4_weight,
              {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*self_attn*", "lm_head"]},
              only=".experts."),
)


def is_quantized(case: Quantized, tensor: str) -> bool:
    module, _, last = tensor.rpartition(".")
    return (last == "weight" and module.rsplit(".", 1)[-1] in PROJECTIONS and ".layers." in tensor
            and case.only in tensor and case.ignored not in tensor)


def same_input(module: str) -> str:
    """Modules that a server keeps as one have one name here; the reference's fused experts have it already."""
    for parts, name in ((("q_proj", "k_proj", "v_proj"), "qkv"), (("gate_proj", "up_proj", "gate_up_proj"), "gate_up")):
        for part in parts:
            if module.endswith("." + part):
                module = module.removesuffix(part) + name
    return re.sub(r"\.experts\.\d+\.", ".experts.", module)


class StaticScales:
    """A scale for every quantised module: of what the reference saw, less a little, so that some of it saturates."""

    def __init__(self, modules: list[str], seen: dict[str, float]):
        most = {}
        for name, value in seen.items():
            most[same_input(name)] = max(value, most.get(same_input(name), 0.0))
        self.of, self.largest = {}, {}
        for module in sorted(modules):
            shared = same_input(module)
            share = 0.6 if shared in self.largest else 0.9
            scale = torch.tensor(most[shared] * share / MOST, dtype=torch.float32)
            self.of[module] = scale
            self.largest[shared] = max(self.largest.get(shared, 0.0), scale.item())

    def chosen(self, module: str):
        scale = self.largest.get(same_input(module))
        return by_tensor(scale) if scale else None


def dynamic(case: Quantized):
    return lambda module: case.function if case.function and case.ignored not in module else None


def disagreement(a: dict, b: dict) -> float:
    """The largest relative RMS difference of any site and hidden state of two runs."""
    def rms(x, y):
        return ((x.double() - y.double()).norm() / y.double().norm()).item()

    sites = [rms(x[layer][site], y[layer][site]) for x, y in zip(a["sites"], b["sites"]) for layer in y
             for site in y[layer]]
    return max(sites + [rms(x, y) for p, q in zip(a["hidden"], b["hidden"]) for x, y in zip(p, q)])


def attempt(case: Quantized, plain, folder: Path, chosen, seed: int) -> tuple[float, arch.Attempt]:
    """How unsteady one choice of tokens is, and what the reference computes: with rounded activations f32 against f64,
    since a difference that meets a tie is no matter of tolerance."""
    sequences = arch.draw_sequences(plain, seed)
    with Rounding(chosen):
        runs = {precision: arch.run(plain, folder, precision, sequences) for precision in ("f32", "bf16")}
        exact = arch.run(plain, folder, "f64", sequences) if case.activations else None
    maxima = {precision: arch.absmax(result) for precision, result in runs.items()}
    found = arch.Attempt(seed, sequences, runs, maxima)
    return (disagreement(runs["f32"], exact) if exact else found.unsteadiness), found


def narrowest_choice(plain, folder: Path, chosen, seed: int) -> float:
    """How close any choice of experts is: where it is wide, no rounding flips it."""
    with Rounding(chosen), arch.NarrowestChoice() as choice:
        arch.run(plain, folder, "f32", arch.draw_sequences(plain, seed))
    return choice.gap


def make(case: Quantized, tries: int) -> str:
    base = ROOT / "golden" / case.base
    plain = next(c for c in CASES if c.name == case.base)
    plain = dataclasses.replace(plain, name=case.name, note=case.note, served=None, served_tensors=None,
                                lengths=case.lengths or plain.lengths)
    out = ROOT / ("activation" if case.activations else "golden") / case.name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    config = json.loads((base / "config.json").read_text())
    extra = f".layers.{config['num_hidden_layers']}."  # a draft layer, which the reference does not know
    tensors = {n: t for n, t in load_file(base / "model.safetensors").items() if extra not in n}
    stored, reference, modules = {}, {}, []
    for name, tensor in tensors.items():
        if not is_quantized(case, name):
            stored[name] = reference[name] = tensor
            continue
        module = name.removesuffix("weight")
        modules.append(module.removesuffix("."))
        parts = case.weight(tensor.float())
        stored |= {module + part: t for part, t in parts.items()}
        reference[name] = dequantized(parts, case.block)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        shutil.copy(base / "config.json", folder)
        save_file({n: t.contiguous() for n, t in reference.items()}, folder / "model.safetensors", {"format": "pt"})
        chosen = dynamic(case)
        if case.activations == "fp8_tensor":
            with Rounding(lambda name: None) as plain_run:
                arch.run(plain, folder, "f32", arch.draw_sequences(plain, 1))
            scales = StaticScales(modules, plain_run.seen)
            chosen = scales.chosen
            stored |= {module + ".input_scale": scale for module, scale in scales.of.items()}
        seeds = sorted(range(1, tries + 1), key=lambda seed: narrowest_choice(plain, folder, chosen, seed))
        seeds = seeds[-max(1, tries // 8):]
        unsteady, best = min((attempt(case, plain, folder, chosen, seed) for seed in seeds), key=lambda a: a[0])
        limit = 2e-6 if case.activations else arch.MAX_MOVEMENT
        if unsteady > limit:
            raise RuntimeError(f"{case.name}: no tokens are steady enough, {unsteady:.2g} is the best")
        with Rounding(lambda name: None):
            without = arch.run(plain, folder, "f32", best.sequences)
    golden = arch.write_golden(plain, out, best)
    golden |= {"made_by": Path(__file__).name, "quantized": case.base}
    if not golden["layouts"]:
        del golden["layouts"]
    if case.activations:
        golden |= {"activations": case.activations, "rms_moved_by_activations": disagreement(best.runs["f32"], without),
                   "rms_moved_by_bf16": disagreement(best.runs["bf16"], best.runs["f32"])}
    write_json(out / "golden.json", golden)
    write_json(out / "config.json", dict(config, quantization_config=case.config))
    save_file({n: t.contiguous() for n, t in sorted(stored.items())}, out / "model.safetensors", {"format": "pt"})
    return f"{case.name:24s} seed {best.seed:3d}  unsteady {unsteady:.1e}  " + \
        f"moved {golden.get('rms_moved_by_activations', 0):.4f}  {sum(p.stat().st_size for p in out.iterdir()) // 1024} KiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to make (default: all)")
    parser.add_argument("--tries", type=int, default=48, help="choices of tokens to choose from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    arch.PRECISIONS["f64"] = torch.float64
    for case in ALL:
        if not options.cases or case.name in options.cases:
            print(make(case, options.tries), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
