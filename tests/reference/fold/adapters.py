"""LoRA adapters as PEFT writes them, folded with their model: with them both models must compute the same bits.

Adapters are random, on every projection of attention by its last name, as users ask for them: in a class with a vision
tower that is one more place of the same names.
"""

import contextlib
import io
import json
import shutil
from pathlib import Path

import torch
from peft import IA3Config, LoHaConfig, LoraConfig, PeftModel, get_peft_model

import framework
import shards

GROUPED = ("q_proj", "k_proj", "v_proj", "o_proj")
LATENT = ("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
FUSED = ("qkv_proj", "o_proj")

# Goldens: plain, with biases, with norms of heads and of rows, fused, gated, latent, and with a vision tower, whose
# modules the framework calls otherwise than the checkpoint does.
CASES = {"llama": GROUPED, "qwen2": GROUPED, "qwen3": GROUPED, "olmo2": GROUPED, "gpt_oss": GROUPED,
         "phi3_window": FUSED, "qwen3_next": GROUPED, "deepseek_v2_lite": LATENT, "deepseek_v3": LATENT,
         "llava": GROUPED, "mistral3": GROUPED, "qwen2_vl": GROUPED, "qwen2_5_vl": GROUPED, "qwen3_vl": GROUPED,
         "gemma3_vl": GROUPED}

# What else PEFT puts into an adapter: {name: (goldens, options)}
FURTHER = {"biases": (("qwen2", "qwen2_vl"), dict(bias="all")),
           "its biases": (("llama",), dict(lora_bias=True)),
           "norms": (("qwen3", "qwen3_vl"), dict(modules_to_save=["q_norm", "k_norm"])),
           "whole projection": (("llama", "llava"), dict(modules_to_save=["v_proj"])),
           "decomposed, of rows alone": (("llama",), dict(use_dora=True, target_modules=["q_proj", "k_proj", "v_proj"])),
           "rank-stabilized": (("llama",), dict(use_rslora=True))}

# What no power of two can follow, or what nothing is known of: {name: a config of it}
REFUSED = {"DoRA": lambda targets: LoraConfig(r=4, target_modules=list(targets), use_dora=True),
           "LoHa": lambda targets: LoHaConfig(r=4, target_modules=list(targets)),
           "PiSSA": lambda targets: LoraConfig(r=4, target_modules=list(targets), init_lora_weights="pissa"),
           "IA3": lambda targets: IA3Config(target_modules=list(targets), feedforward_modules=["o_proj"])}


def write(architecture: str, folder: Path, out: Path, config) -> Path:
    """A random adapter. PEFT's own start is no change at all."""
    generator = torch.Generator().manual_seed(5)
    with contextlib.redirect_stderr(io.StringIO()):
        adapted = get_peft_model(framework.load(architecture, folder, "f32"), config)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name or "modules_to_save" in name or name.endswith("bias"):
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
    adapted.save_pretrained(out)
    return out


def logits(architecture: str, folder: Path, adapter: Path, precision: str, sequences) -> list[torch.Tensor]:
    model = framework.load(architecture, folder, precision)
    return framework.logits(PeftModel.from_pretrained(model, adapter).eval(), sequences)


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, a, b))


def compare(architecture: str, original: tuple[Path, Path], folded: tuple[Path, Path], sequences) -> list[str]:
    """What differs between a model with its adapter and the folded one with its own."""
    found = []
    for precision in framework.PRECISIONS:
        before, after = (logits(architecture, *pair, precision, sequences) for pair in (original, folded))
        if not equal(before, after):
            most = max((a.float() - b.float()).abs().max().item() for a, b in zip(before, after))
            found.append(f"logits in {precision} differ by up to {most:.3g}")
        if equal(before, logits(architecture, folded[0], original[1], precision, sequences)):
            found.append(f"the original's adapter does as well in {precision}: nothing is shown")
    before, after = (shards.Shard(pair[1] / "adapter_model.safetensors") for pair in (original, folded))
    return found + ([] if before.header() == after.header() else ["the adapter has another header"])


class Adapters:
    """Of one golden. `fold(adapter, out)` folds both, and raises `refusal` where kvcal does not."""

    def __init__(self, case: Path, architecture: str, sequences, scratch: Path, fold, refusal):
        self.case, self.architecture, self.sequences = case, architecture, sequences
        self.scratch, self.fold, self.refusal = scratch, fold, refusal
        self.targets = list(CASES[case.name])

    def follows(self, name: str, config) -> list[str]:
        adapter = write(self.architecture, self.case, self.scratch / name.replace(" ", "-").replace(",", ""), config)
        out = self.scratch / f"with-{adapter.name}"
        try:
            self.fold(adapter, out)
        except self.refusal as e:
            return [f"adapter, {name}: {e}"]
        own = out.parent / f"{out.name}-{adapter.name}"
        found = compare(self.architecture, (self.case, adapter), (out, own), self.sequences)
        shutil.rmtree(out)
        return [f"adapter, {name}: {line}" for line in found]

    def is_refused(self, name: str, config) -> list[str]:
        adapter = write(self.architecture, self.case, self.scratch / name, config)
        out = self.scratch / f"with-{name}"
        try:
            self.fold(adapter, out)
        except self.refusal:
            return [f"adapter, {name}: refused, and the model was written"] if out.exists() else []
        return [f"adapter, {name}: was folded"]

    def differences(self) -> list[str]:
        found = self.follows("plain", LoraConfig(r=4, target_modules=self.targets))
        for name, (cases, more) in FURTHER.items():
            if self.case.name in cases:
                kept = [t for t in self.targets if t not in more.get("modules_to_save", ())]
                found += self.follows(name, LoraConfig(**(dict(r=4, target_modules=kept) | more)))
        if self.case.name == "llama":
            for name, config in REFUSED.items():
                found += self.is_refused(name, config(self.targets))
        return found
