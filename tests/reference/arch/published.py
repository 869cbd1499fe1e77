"""How published quantised checkpoints lay out a model: experts one by one or all in one tensor, which weights a tool may
quantise, and what their tensors are called."""

import re
from dataclasses import dataclass

import torch

LAYER = re.compile(r"(.*\.layers\.)(\d+)\.")
ENDS = ("lm_head.weight", "embed_tokens.weight")
NEVER = re.compile(r"norm|conv|embed(?!_tokens\.)|vision|visual|audio|projector\.|_bias$")
# Where language models stand in wrappers: their layers, their head.
PREFIXES = (("model.language_model.", "lm_head."), ("language_model.model.", "language_model.lm_head."), ("model.", "lm_head."))
SINGLE = re.compile(r"(.*\.experts\.)(\d+)\.down_proj\.weight$")
FUSED = re.compile(r"(.*\.)?experts\.(gate_up_proj|down_proj)$")
TURNED = ("Llama4ForCausalLM", "Llama4ForConditionalGeneration", "GptOssForCausalLM")  # fused as [experts, in, out]
ALSO_SINGLE = ("Qwen3VLMoe", "Llama4", "Gemma4")  # whose experts are saved fused, and published one by one as well


@dataclass
class Weight:
    name: str  # "x.weight", or of all experts "x.experts.down_proj"
    view: torch.Tensor  # [out, in] or [experts, out, in]: writing there changes what is saved
    turned: bool  # stored as [experts, in, out]

    @property
    def module(self) -> str:
        return self.name.removesuffix(".weight")

    def called(self, part: str, joint: str) -> str:
        """The name of one of its tensors. `joint`: what stands between fused experts and "_scale"."""
        if self.name.endswith(".weight"):
            return f"{self.module}.{part}"
        return self.name if part == "weight" else self.name + joint + "_" + part.removeprefix("weight_")


def published(saved: dict, model: str, experts: str) -> dict:
    """What is saved by the names of a published checkpoint, as views. `experts`: "saved" as they are, "single", "fused"."""
    if experts == "fused":
        return fused_experts(saved)
    out = dict(saved)
    if experts == "single" and model.startswith(ALSO_SINGLE):
        for name in [name for name, t in saved.items() if FUSED.match(name) and t.ndim == 3]:
            out |= single_experts(name, out.pop(name), model in TURNED)
    return out


def at_prefix(tensors: dict, prefix: tuple[str, str]) -> dict:
    """A wrapper's tensors with its language model at one of PREFIXES."""
    own = next(p for p in PREFIXES if any(name.startswith(p[0]) for name in tensors))
    text = [name for name in tensors if name.startswith(own) and not re.search("visual|vision", name)]
    moved = {name: next(to + name.removeprefix(old) for old, to in zip(own, prefix) if name.startswith(old)) for name in text}
    return {moved.get(name, name): t for name, t in tensors.items()}


def single_experts(name: str, all_experts: torch.Tensor, turned: bool) -> dict:
    module, _, part = name.rpartition(".")
    view = all_experts.transpose(1, 2) if turned else all_experts
    if part == "down_proj":
        return {f"{module}.{e}.down_proj.weight": view[e] for e in range(len(view))}
    half = view.shape[1] // 2
    return {f"{module}.{e}.{one}.weight": rows for e in range(len(view))
            for one, rows in (("gate_proj", view[e, :half]), ("up_proj", view[e, half:]))}


def fused_experts(saved: dict) -> dict:
    """What was saved of single experts becomes views of the fused tensors."""
    out, numbers = dict(saved), {}
    for name in saved:
        if (match := SINGLE.match(name)) and name.replace("down_proj", "gate_proj") in saved:
            numbers.setdefault(match[1], []).append(int(match[2]))
    for module, experts in numbers.items():
        stacks = {part: torch.stack([out.pop(f"{module}{e}.{part}.weight") for e in sorted(experts)])
                  for part in ("gate_proj", "up_proj", "down_proj")}
        both = torch.cat((stacks["gate_proj"], stacks["up_proj"]), 1)
        half = both.shape[1] // 2
        for e in experts:
            saved[f"{module}{e}.gate_proj.weight"], saved[f"{module}{e}.up_proj.weight"] = both[e, :half], both[e, half:]
            saved[f"{module}{e}.down_proj.weight"] = stacks["down_proj"][e]
        out |= {module + "gate_up_proj": both, module + "down_proj": stacks["down_proj"]}
    return out


def weights_of(tensors: dict, model: str) -> list[Weight]:
    """All that a tool may quantise: linear layers, experts in one tensor, head and embeddings."""
    out = []
    for name, t in tensors.items():
        if not (LAYER.match(name) or name.endswith(ENDS)) or NEVER.search(name) or t.ndim not in (2, 3):
            continue
        if name.endswith(".weight") or t.ndim == 3 and FUSED.match(name):
            turned = model in TURNED and t.ndim == 3
            out.append(Weight(name, t.transpose(1, 2) if turned else t, turned))
    return out
