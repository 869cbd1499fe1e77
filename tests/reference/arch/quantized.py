"""A drawn model as a quantised checkpoint, beside the one that its weights mean."""

import json
import re
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

import recipes
from dice import Dice
from json_lines import write_json
from published import LAYER, PREFIXES, Weight, at_prefix, published, weights_of

WIDTHS = ("intermediate_size", "intermediate_size_mlp", "moe_intermediate_size", "shared_expert_intermediate_size",
          "shared_intermediate_size", "moe_shared_expert_intermediate_size", "moe_latent_size", "kv_lora_rank", "q_lora_rank")


class EvenDice(Dice):
    """Whose models have a width that groups of 32 divide."""

    def sizes(self, *arguments, **more) -> dict:
        out = super().sizes(*arguments, **more)
        if "head_dim" in out:
            out["hidden_size"] = 32 * self.randint(1, 3)
        else:
            heads = out["num_attention_heads"] = self.choice((2, 4, 6))
            out["hidden_size"] = 16 * heads
            if "num_key_value_heads" in out:
                out["num_key_value_heads"] = self.choice((1, 2, heads))
        return out


def with_widths(config: dict, change) -> dict:
    """Widths that nothing else depends on, changed."""
    return {key: with_widths(value, change) if key == "text_config" else
            change(value) if key in WIDTHS and isinstance(value, int) and value > 0 else value
            for key, value in config.items()}


def draw(name: str, model: str, draw_config, seed: int):
    """-> a recipe, a config that suits it, and the dice"""
    recipe = recipes.ALL[name](Dice(f"{name} {model} {seed}"))
    dice = (EvenDice if recipe.even else Dice)(f"{model} {seed} {name}")
    config = draw_config(dice)
    if recipe.even:
        config = with_widths(config, lambda width: -(-width // 32) * 32)
    elif dice.flag():
        config = with_widths(config, lambda width: width + dice.choice((0, 111, 128)))
    return recipe, config, dice


def stored(recipe, weight: Weight) -> dict | None:
    """The published tensors of a weight, whose view becomes what they mean; None: it is left as it is."""
    if re.search(recipe.kept, weight.module) or (weight.view.ndim == 3 and not recipe.fused):
        return None
    if weight.turned and recipe.turned == "never":
        return None
    found = recipe.store(weight.module, weight.view.contiguous())
    if not found:
        return None
    parts, product = found
    weight.view.copy_(product.bfloat16().float())
    if recipe.input_scale:
        parts["input_scale"] = torch.tensor(0.02)
    turn = weight.turned and recipe.turned == "parts"
    joint = recipe.joint if weight.view.ndim == 3 else ""
    return {weight.called(part, joint): t.transpose(1, 2) if turn and t.ndim == 3 else t for part, t in parts.items()}


def further_tensors(recipe, dice: Dice, quantised: dict, names) -> dict:
    """What such checkpoints hold besides: scales of the KV cache, and a draft layer after the last."""
    out, layers = {}, [(m[1], int(m[2])) for m in map(LAYER.match, names) if m]
    if dice.flag(0.3):
        for name in names:
            if match := re.match(r"(.*\.)self_attn\.k_proj\.weight$", name):
                out |= {match[1] + scale: torch.tensor(0.05) for scale in recipe.kv_names}
    if dice.flag(0.3) and quantised and layers:
        prefix, last = max(layers, key=lambda at: at[1])
        example = min(quantised)
        out |= {f"{prefix}{last + 1}.eh_proj." + name.removeprefix(example + "."): t.clone()
                for name, t in quantised[example].items() if example + "." in name}
    return out


def write(recipe, dice: Dice, model: str, plain: Path, folder: Path) -> dict:
    """The model in `plain` gets the weights that the quantised one in `folder` means. -> tensors of each weight by module"""
    saved = load_file(plain / "model.safetensors")
    tensors, quantised, left = published(saved, model, dice.choice(recipe.experts)), {}, []
    if model.endswith("ConditionalGeneration") and dice.flag(0.4):
        tensors = at_prefix(tensors, dice.choice(PREFIXES[:2]))
    for weight in weights_of(tensors, model):
        parts = stored(recipe, weight)
        if parts is None:
            left.append(weight.module)
            continue
        del tensors[weight.name]
        quantised[weight.module] = parts
    names = list(tensors) + [name for parts in quantised.values() for name in parts]
    tensors |= further_tensors(recipe, dice, quantised, [*names, *(m + ".weight" for m in quantised)])
    for parts in quantised.values():
        tensors |= parts
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    inside, files = recipe.config(sorted(quantised), sorted(left))
    config = json.loads((plain / "config.json").read_text())
    at = config["text_config"] if "text_config" in config and dice.flag(0.3) else config
    at.update({"quantization_config": inside} if inside else {})
    write_json(folder / "config.json", config)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    for where, what in ((folder, tensors), (plain, saved)):
        save_file({name: t.clone().contiguous() for name, t in what.items()}, where / "model.safetensors", {"format": "pt"})
    return quantised
