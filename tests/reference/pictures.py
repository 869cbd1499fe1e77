"""Prompts with pictures for every class with a vision tower: a tiny tower, and what its processor would make of a picture.

The text model is that of a case of `cases`: inside the same wrapper, or, where that case is a text class, inside the
wrapper named here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

LARGE, MIDDLE, SMALL, SQUARE = (32, 48), (16, 24), (16, 16), (32, 32)  # height, width in pixels
IMAGE = 92  # placeholder token
START, END = 94, 95


def picture(height: int, width: int, phase: float) -> torch.Tensor:
    """A disc before a sky of stripes: [3, height, width] from -1 to 1."""
    y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")
    stripes = torch.sin(x / 3 + phase) * 0.5
    disc = ((x - 0.6 * width) ** 2 + (y - 0.4 * height) ** 2 < (height / 4) ** 2).float()
    return torch.stack([stripes + disc, y / height - 0.5, disc - stripes]).clamp(-1, 1)


def pictures(*sizes: tuple[int, int]) -> list[torch.Tensor]:
    return [picture(*size, phase) for phase, size in enumerate(sizes)]


def blocks(image: torch.Tensor, size: int, merge: int) -> torch.Tensor:
    """[n, 3, size, size]: squares of merge x merge patches one after the other."""
    h, w = image.shape[1] // size // merge, image.shape[2] // size // merge
    cut = image.reshape(3, h, merge, size, w, merge, size).permute(1, 4, 2, 5, 0, 3, 6)  # h w mh mw c ph pw
    return cut.reshape(-1, 3, size, size)


def grids(images: list[torch.Tensor], size: int) -> torch.Tensor:
    return torch.tensor([[1, x.shape[1] // size, x.shape[2] // size] for x in images])


# Each gives the inputs of the tower, and how many placeholder tokens every picture has.
def qwen(vision) -> tuple[dict, list[int]]:
    images, size, merge = pictures(MIDDLE, SMALL), vision.patch_size, vision.spatial_merge_size
    flat = torch.cat([blocks(x, size, merge) for x in images])[:, :, None]  # the image in every frame
    pixels = flat.expand(-1, -1, vision.temporal_patch_size, -1, -1).reshape(len(flat), -1)
    return dict(pixel_values=pixels, image_grid_thw=grids(images, size)), [
        x[0].numel() // (size * merge) ** 2 for x in images]


def kimi(vision) -> tuple[dict, list[int]]:
    images, size, merge = pictures(MIDDLE, SMALL), vision.patch_size, vision.merge_kernel_size[0]
    return dict(pixel_values=torch.cat([blocks(x, size, 1) for x in images]), image_grid_thw=grids(images, size)), [
        x[0].numel() // (size * merge) ** 2 for x in images]


def muse(vision) -> tuple[dict, list[int]]:
    images, size, merge = pictures(MIDDLE, SMALL), vision.patch_size, vision.merge_size
    flat = torch.cat([blocks(x, size, 1) for x in images])[:, None]  # the image in every frame
    pixels = flat.expand(-1, vision.patch_temporal, -1, -1, -1).reshape(len(flat), -1)
    return dict(pixel_values=pixels, image_grid_thw=grids(images, size)), [
        x[0].numel() // (size * merge) ** 2 for x in images]


def clip(vision) -> tuple[dict, list[int]]:
    images = pictures(SMALL, SMALL)
    return dict(pixel_values=torch.stack(images)), [(vision.image_size // vision.patch_size) ** 2] * 2


def pixtral(vision) -> tuple[dict, list[int]]:
    images = pictures(SMALL, SMALL)
    return dict(pixel_values=torch.stack(images), image_sizes=torch.tensor([[16, 16], [16, 16]])), [4, 4]


def gemma3(vision) -> tuple[dict, list[int]]:
    return dict(pixel_values=torch.stack(pictures(SQUARE, SQUARE))), [16, 16]


def gemma4(vision) -> tuple[dict, list[int]]:
    images, size = pictures(LARGE, LARGE), vision.patch_size
    h, w = LARGE[0] // size, LARGE[1] // size
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    pixels = torch.stack([blocks(i / 2 + 0.5, size, 1).permute(0, 2, 3, 1).reshape(h * w, -1) for i in images])
    return dict(pixel_values=pixels, image_position_ids=torch.stack([x, y], -1).reshape(1, -1, 2).repeat(2, 1, 1)), [
        h * w // vision.pooling_kernel_size ** 2] * 2


def llama4(vision) -> tuple[dict, list[int]]:
    n = (SQUARE[0] // vision.patch_size) ** 2 * vision.pixel_shuffle_ratio ** 2
    return dict(pixel_values=torch.stack(pictures(SQUARE, SQUARE))), [int(n)] * 2


def siglip2(vision) -> tuple[dict, list[int]]:
    images, size = pictures(SQUARE, SMALL), vision.patch_size
    flat = [blocks(x, size, 1).permute(0, 2, 3, 1).reshape(-1, 3 * size * size) for x in images]
    pixels = torch.zeros(2, max(map(len, flat)), flat[0].shape[1])
    mask = torch.zeros(2, pixels.shape[1], dtype=torch.long)
    for i, rows in enumerate(flat):
        pixels[i, :len(rows)], mask[i, :len(rows)] = rows, 1
    return dict(pixel_values=pixels, spatial_shapes=grids(images, size)[:, 1:], pixel_attention_mask=mask), [
        len(rows) // 4 for rows in flat]


@dataclass(frozen=True)
class Pictured:
    case: str  # of tests/arch/golden: weights and text_config
    inputs: Callable
    tower: dict = field(default_factory=dict)  # vision_config, where it is another than the case's
    wrapper: str = ""  # around a case that is a text class; else the case's own
    model_type: str = ""  # of the text_config then
    more: dict = field(default_factory=dict)  # keys of the wrapper's config
    text: dict = field(default_factory=dict)  # keys of its text_config
    published: dict = field(default_factory=dict)  # {key of `more`: its name in published files}
    types: str = ""  # what tells the model which tokens are of images

    @property
    def name(self) -> str:
        return self.case if not self.wrapper else self.case + "_vl"


SIGLIP = dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
              num_attention_heads=2, image_size=32, patch_size=8)
SIGLIP2 = dict(model_type="siglip2_vision_model", hidden_size=16, intermediate_size=16, num_hidden_layers=1,
               num_attention_heads=2, num_patches=16, patch_size=4)
GEMMA4_TOWER = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                    num_key_value_heads=2, head_dim=8, pooling_kernel_size=2, patch_size=4, position_embedding_size=16)
LLAMA4_TOWER = dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, image_size=32,
                    patch_size=8, vision_output_dim=16, projector_input_dim=16, projector_output_dim=16)
KIMI_TOWER = dict(patch_size=4, pos_emb_height=8, pos_emb_width=8, num_attention_heads=2, num_hidden_layers=1,
                  hidden_size=16, intermediate_size=16)

MM = "mm_token_type_ids"
PICTURED = (
    Pictured("qwen2_vl", qwen, types=MM), Pictured("qwen2_5_vl", qwen, types=MM), Pictured("qwen3_vl", qwen, types=MM), Pictured("qwen3_vl_moe", qwen, types=MM),
    Pictured("qwen3_5_vl", qwen, types=MM), Pictured("qwen3_5_moe_vl", qwen, types=MM), Pictured("llava", clip),
    Pictured("muse_glimmer", muse), Pictured("mistral3", pixtral), Pictured("mistral3_ministral3", pixtral),
    Pictured("gemma3_vl", gemma3, tower=SIGLIP, more=dict(mm_tokens_per_image=16), types="token_type_ids"),
    Pictured("gemma4", gemma4, tower=GEMMA4_TOWER, wrapper="Gemma4ForConditionalGeneration", model_type="gemma4_text",
             text=dict(use_bidirectional_attention="vision"), more=dict(audio_config=None, image_token_id=IMAGE), types=MM),
    Pictured("llama4", llama4, tower=LLAMA4_TOWER, wrapper="Llama4ForConditionalGeneration", model_type="llama4_text",
             more=dict(image_token_index=IMAGE)),
    Pictured("lfm2", siglip2, tower=SIGLIP2, wrapper="Lfm2VlForConditionalGeneration", model_type="lfm2",
             more=dict(image_token_id=IMAGE, projector_hidden_size=16)),
    Pictured("deepseek_v3", kimi, tower=KIMI_TOWER, wrapper="Kimi_K25ForConditionalGeneration", model_type="deepseek_v3",
             more=dict(image_token_id=IMAGE, projection_hidden_size=16),
             published=dict(image_token_id="media_placeholder_token_id")),
)


def token_ids(counts: list[int], seed: int) -> list[int]:
    """5 tokens, a picture, 4 tokens, a picture, 8 tokens."""
    generator = torch.Generator().manual_seed(seed)

    def words(n):
        return torch.randint(3, 90, (n,), generator=generator).tolist()

    first, second = counts
    return words(4) + [START] + [IMAGE] * first + [END] + words(2) + [START] + [IMAGE] * second + [END] + words(7)


def draw_tower(model, seed: int, draw) -> None:
    """Weights of everything beside the language model, so that it is felt in what comes out."""
    inside = {id(p) for module in (model.get_decoder(), model.get_output_embeddings()) for p in module.parameters()}
    for name, p in model.named_parameters():
        if id(p) in inside:
            continue
        source = draw(name, p.shape, seed)
        norm = "norm" in name and name.endswith("weight")
        scale = 1 / math.sqrt(p[0].numel()) if p.ndim > 1 else 0.2
        p.data = (1 + source.normal(0.2) if norm else source.normal(scale)).to(p.dtype)
