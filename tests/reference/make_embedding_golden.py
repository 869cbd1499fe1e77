"""Makes tests/arch/embeddings/qwen3_vl: the tiny Qwen3-VL of tests/arch/golden with a picture in its prompt.

    python make_embedding_golden.py [--check]

A picture goes through the reference framework's own tower (its weights are drawn here and not kept: a run needs what the
tower returns, not the tower), export_embeddings.py writes what comes out, and the reference runs the whole model.
golden.json: absmax per layer, site and head in f32 and bf16; golden.safetensors: Q, K, V and residual stream of every
layer, last-position logits.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from cases import CASES
from export_embeddings import encoder_rows, write_prompt
from json_lines import write_json
from make_arch_goldens import GOLDEN, PRECISIONS, Capture, Draw, load

NAME = "qwen3_vl"
FOLDER = GOLDEN.parent / "embeddings" / NAME
HEIGHT, WIDTH = 32, 48  # pixels: 8 x 12 patches of 4, 4 x 6 tokens


def picture() -> torch.Tensor:
    """A disc before a sky of stripes: [3, HEIGHT, WIDTH] from -1 to 1."""
    y, x = torch.meshgrid(torch.arange(HEIGHT).float(), torch.arange(WIDTH).float(), indexing="ij")
    stripes = torch.sin(x / 3) * 0.5
    disc = ((x - 30) ** 2 + (y - 12) ** 2 < 64).float()
    return torch.stack([stripes + disc, y / HEIGHT - 0.5, disc - stripes]).clamp(-1, 1)


def patches(image: torch.Tensor, size: int, merge: int, frames: int) -> torch.Tensor:
    """[n, 3 * frames * size * size]: squares of merge x merge patches one after the other, the image in every frame."""
    h, w = HEIGHT // size // merge, WIDTH // size // merge
    blocks = image.reshape(3, h, merge, size, w, merge, size).permute(1, 4, 2, 5, 0, 3, 6)  # h w mh mw c ph pw
    flat = blocks.reshape(h * w * merge * merge, 3, 1, size, size)
    return flat.expand(-1, -1, frames, -1, -1).reshape(len(flat), -1)


def with_tower(case, precision: str):
    """The committed model with a tower whose output is felt."""
    model = load(case, GOLDEN / NAME, precision)
    for name, p in model.model.visual.named_parameters():
        draw = Draw(name, p.shape, 1)
        p.data = (1 + draw.normal(0.2) if "norm" in name and name.endswith("weight") else
                  draw.normal(1 / math.sqrt(p[0].numel()) if p.ndim > 1 else 0.2)).to(p.dtype)
    return model


def inputs_of(config) -> dict:
    vision = config.vision_config
    n = HEIGHT * WIDTH // (vision.patch_size * vision.spatial_merge_size) ** 2
    ids = [11, 7, 53, 20, config.vision_start_token_id] + [config.image_token_id] * n + \
        [config.vision_end_token_id, 31, 64, 5, 77, 40, 18, 29]
    ids = torch.tensor([ids])
    return dict(input_ids=ids, mm_token_type_ids=(ids == config.image_token_id).int(),
                pixel_values=patches(picture(), vision.patch_size, vision.spatial_merge_size,
                                     vision.temporal_patch_size),
                image_grid_thw=torch.tensor([[1, HEIGHT // vision.patch_size, WIDTH // vision.patch_size]]))


def run(case, precision: str) -> tuple[dict, dict]:
    capture, hidden = Capture(), []
    AttentionInterface.register("golden", capture)
    AttentionMaskInterface.register("golden", eager_mask)
    model = with_tower(case, precision)
    model.model.visual.set_attn_implementation("eager")
    inputs = inputs_of(model.config)
    rows = encoder_rows(model, inputs)
    language_model = model.model.language_model
    language_model.layers[0].register_forward_pre_hook(lambda m, args: capture.sites.clear())
    # Before layer i+1 the stream holds what deepstack added behind layer i.
    for layer in [*language_model.layers[1:], language_model.norm]:
        layer.register_forward_pre_hook(lambda m, args: hidden.append(args[0][0].clone()))
    logits = model(**inputs, use_cache=False).logits[0, -1]
    tensors = {f"{precision}.{site}.{layer}": x for layer, sites in capture.sites.items() for site, x in sites.items()}
    tensors.update({f"{precision}.hidden.{i}": x for i, x in enumerate(hidden)}, **{f"{precision}.logits": logits})
    return {k: v.detach().clone().contiguous() for k, v in tensors.items()}, dict(rows, ids=inputs["input_ids"][0])


@torch.no_grad()
def make(folder: Path) -> None:
    case = next(c for c in CASES if c.name == NAME)
    shutil.rmtree(folder, ignore_errors=True)
    runs = {precision: run(case, precision) for precision in PRECISIONS}
    rows = dict(runs["f32"][1])
    write_prompt(folder, "picture", rows.pop("ids").tolist(), rows)
    tensors = {name: x for result, _ in runs.values() for name, x in result.items()}
    save_file(tensors, folder / "golden.safetensors")
    maxima = {precision: {name.split(".", 1)[1]: x.float().abs().amax(dim=(0, 2)).tolist()
                          for name, x in sorted(result.items()) if x.ndim == 3}
              for precision, (result, _) in runs.items()}
    moved = max(abs(b / a - 1) for site, xs in maxima["f32"].items() for a, b in zip(xs, maxima["bf16"][site]))
    write_json(folder / "golden.json", {
        "made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__, "model": f"tests/arch/golden/{NAME}", "absmax_moved_by_bf16": moved,
        "absmax": maxima})
    print(f"{NAME}: {len(rows)} tensors, bf16 moves absmax {100 * moved:.2f} %, deepstack absmax "
          f"{[round(rows[k].abs().max().item(), 2) for k in sorted(rows) if k.startswith('deepstack')]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make again elsewhere and compare")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if not options.check:
        make(FOLDER)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch))
        old, new = (load_file(f / "golden.safetensors") for f in (FOLDER, Path(scratch)))
        different = [k for k in old if (old[k].float() - new[k].float()).abs().max() > 3e-2 * old[k].float().abs().max()]
        print(*different, sep="\n")
        return 1 if different or old.keys() != new.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
