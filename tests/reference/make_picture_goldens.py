"""Makes tests/arch/pictures: files of pictures, what the reference framework reads, cuts and sees in them.

    python make_picture_goldens.py [--check]

images/: small pictures, drawn here, in the forms of PNG and JPEG; images.safetensors: their pixels as the framework's
processors get them (torchvision's decode_image), and after its resizing to `size`; patches.safetensors: the patches of FED
by each of its processors (those that AutoProcessor gives where there is torchvision).
<case>/: a model of tests/arch/golden with a tower of its own (tower.safetensors, config.json, preprocessor_config.json) and a
prompt with two pictures. golden.safetensors: in f32 and bf16 the stream behind each block of the tower for both
pictures, its rows, streams of deepstack; in f32 Q, K, V of the language model and the logits of the last position.
golden.json: the prompt's ids behind the processor, and its positions; `patches`: their name in patches.safetensors. Where a
processor writes more for a picture than the chat template: a tokenizer, a template, and the ids of `chat`.
"""

import argparse
import dataclasses
import io
import json
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from PIL import Image, ImageOps
from safetensors.torch import load_file, save_file
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2 import functional

from cases import CASES
from golden_checkpoint import Draw, write_checkpoint
from json_lines import write_json
from make_arch_goldens import GOLDEN, PRECISIONS, load
from make_embedding_golden import CAPTURE, config_around, layers_of, wrapped
from padded_families import PADDED_FAMILIES
from picture_families import FAMILIES, FED, Qwen
from pictures import IMAGE, PICTURED, draw_tower, picture
from tile_families import LLAVA_NEXT_CANVASES, ONEVISION_CANVASES, TILE_FAMILIES

FOLDER = GOLDEN.parent / "pictures"
ALL_FAMILIES = FAMILIES | PADDED_FAMILIES | TILE_FAMILIES
TOWER = dict(depth=2, hidden_size=16, intermediate_size=16, num_heads=2, num_position_embeddings=16, patch_size=4,
             spatial_merge_size=2, temporal_patch_size=2)
QWEN2 = dict(depth=2, embed_dim=16, hidden_size=48, num_heads=2, mlp_ratio=2, patch_size=4)
QWEN25 = dict(depth=2, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, patch_size=4, window_size=16,
              fullatt_block_indexes=[1])
SIGLIP = dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=2,
              num_attention_heads=2, image_size=24, patch_size=4, vision_use_head=False)
CLIP = dict(model_type="clip_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
            image_size=24, patch_size=8)
PIXTRAL = dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
               head_dim=8, patch_size=4)
INTERN_VIT = dict(model_type="internvl_vision", attention_bias=True, hidden_size=16, image_size=[16, 16], intermediate_size=24,
                  num_attention_heads=2, num_hidden_layers=2, patch_size=[4, 4])
INTERN_VIT_CHAT = dict(INTERN_VIT, num_hidden_layers=1, use_qk_norm=True)
INTERN_VIT_6B = dict(INTERN_VIT, attention_bias=False, norm_type="rms_norm", num_hidden_layers=1, use_qk_norm=True)
IDEFICS3 = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=26, patch_size=4)
GEMMA4 = dict(model_type="gemma4_vision", hidden_size=6, intermediate_size=12, num_attention_heads=2, num_key_value_heads=1,
              head_dim=8, patch_size=2, pooling_kernel_size=2, position_embedding_size=96)
GLM4V = dict(hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4)
LLAMA4 = dict(hidden_size=16, intermediate_size=64, num_attention_heads=2, image_size=16, projector_input_dim=12,
              projector_output_dim=12, vision_output_dim=12)
TOWERS = {"gemma3_vl": SIGLIP, "gemma4": dict(GEMMA4, num_hidden_layers=2, rms_norm_eps=0.01, standardize=True),
          "gemma4_clipped": dict(GEMMA4, num_hidden_layers=1, use_clipped_linears=True),
          "glm4v": dict(GLM4V, depth=2, image_size=20, out_hidden_size=48, rms_norm_eps=0.01),
          "glm4v_moe": dict(GLM4V, depth=1, image_size=12, out_hidden_size=32, attention_bias=True),
          "idefics3": dict(IDEFICS3, layer_norm_eps=0.01), "smolvlm": dict(IDEFICS3, image_size=16),
          "internvl": INTERN_VIT, "internvl_6b": INTERN_VIT_6B, "internvl_chat": INTERN_VIT_CHAT,
          "llama4_dense": dict(LLAMA4, num_hidden_layers=2, patch_size=4),
          "llama4": dict(LLAMA4, num_hidden_layers=1, patch_size=8, norm_eps=0.01, rope_theta=100.0),
          "mistral3": dict(PIXTRAL, hidden_act="silu"), "llava": CLIP,
          "llava_next": dict(CLIP, num_hidden_layers=2, image_size=14, patch_size=7),
          "llava_onevision": dict(SIGLIP, image_size=14),
          "llava_pixtral": dict(PIXTRAL, patch_size=8, rope_parameters=dict(rope_type="axial", rope_theta=100.0)),
          "qwen2_vl": QWEN2, "qwen2_5_vl": QWEN25, "qwen3_vl": dict(TOWER, deepstack_visual_indexes=[0]),
          "qwen3_5_vl": TOWER, "qwen3_vl_moe": dict(TOWER, depth=1, deepstack_visual_indexes=[0]),
          "qwen3_5_moe_vl": dict(TOWER, depth=1)}
TEXT = {"gemma4": "gemma4_k_eq_v", "gemma4_clipped": "gemma4_k_eq_v", "internvl_6b": "internvl",
        "llava_pixtral": "llava"}  # the case of tests/arch/golden, where it has another name
TWO_LAYERS = dict(num_hidden_layers=2, layer_types=["sliding_attention", "full_attention"])
WRAPPED = {"llama4": "llama4", "llama4_dense": "llama4"}  # of text classes: the entry of PICTURED that says how
INSIDE = {"gemma4": TWO_LAYERS, "gemma4_clipped": dict(TWO_LAYERS, use_bidirectional_attention=None)}  # of the text_config
OUTSIDE = {"idefics3": dict(scale_factor=3),  # of the vision_config
           "llava_next": dict(image_grid_pinpoints=LLAVA_NEXT_CANVASES),
           "llava_onevision": dict(image_grid_pinpoints=ONEVISION_CANVASES, vision_aspect_ratio="anyres_max_2"),
           "llava_pixtral": dict(vision_feature_layer=-1, vision_feature_select_strategy="full")}
PUBLISHED = {"internvl": {"model.": ""}, "mistral3": {"model.": ""}, "smolvlm": {},  # names in older files
             "qwen2_vl": {"model.": ""}, "qwen2_5_vl": {"model.": ""},
             "gemma3_vl": {"model.vision_tower.": "vision_tower.vision_model.", "model.": ""},
             "llava": {"model.vision_tower.": "vision_tower.vision_model.", "model.": ""},
             "llava_next": {"model.vision_tower.": "vision_tower.vision_model.", "model.": ""}}
LEFT_OUT = ("hidden_act", "in_channels", "rope_parameters", "spatial_merge_size", "temporal_patch_size")  # of their configs
PROMPT = [5, 71, 94, IMAGE, 95, 23, 94, IMAGE, 95, 44, 8, 60]


def drawn(height: int, width: int) -> Image.Image:
    pixels = ((picture(height, width, 0.7) + 1) * 127.5).byte().permute(1, 2, 0)
    return Image.fromarray(pixels.numpy())


def saved(image: Image.Image, kind: str, **options) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def image_files() -> dict[str, bytes]:
    small, half = drawn(9, 14), drawn(11, 16)
    alpha = small.convert("RGBA")
    alpha.putalpha(small.convert("L"))
    files = {
        "shrunk.png": saved(drawn(47, 61), "PNG", optimize=True), "grown.jpg": saved(half, "JPEG", quality=85),
        "grey.png": saved(small.convert("L"), "PNG"), "bits.png": saved(small.convert("1"), "PNG"),
        "palette.png": saved(small.quantize(11), "PNG", transparency=3), "alpha.png": saved(alpha, "PNG"),
        "grey_alpha.png": saved(alpha.convert("LA"), "PNG"),
        "grey.jpg": saved(half.convert("L"), "JPEG"), "cmyk.jpg": saved(half.convert("CMYK"), "JPEG"),
        "progressive.jpg": saved(half, "JPEG", progressive=True, subsampling=0),
        "turned.png": saved(small, "PNG", exif=turned(8)), "wide.png": saved(drawn(7, 19), "PNG"),
        "slender.png": saved(drawn(3, 53), "PNG"), "tall.png": saved(drawn(47, 6), "PNG"),
    }
    files |= {"half.webp": saved(half, "WEBP", quality=60), "exact.webp": saved(small, "WEBP", lossless=True),
              "alpha.webp": saved(alpha, "WEBP", lossless=True, exact=True), "turned.webp": saved(half, "WEBP", exif=turned(6))}
    return files | {f"turned_{i}.jpg": saved(half, "JPEG", quality=30, exif=turned(i)) for i in range(2, 9)}


def write_images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, data in image_files().items():
        (folder / name).write_bytes(data)
        pixels = decode_image(folder / name, mode=ImageReadMode.RGB, apply_exif_orientation=True)
        tensors[name] = pixels.permute(1, 2, 0)
        if name == "turned.webp":  # which only Pillow turns
            tensors[name] = torch.rot90(tensors[name], -1)
        if name.endswith(".webp"):
            seen = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")
            assert torch.equal(functional.pil_to_tensor(seen).permute(1, 2, 0), tensors[name])
    deep = torch.arange(0, 65536, 771).reshape(2, 43)  # the framework leaves 16 bits as they are
    (folder / "deep.png").write_bytes(saved(Image.fromarray(deep.numpy().astype("uint16")), "PNG"))
    tensors["deep.png"] = (deep / 257).round().byte()[..., None].expand(-1, -1, 3)
    source = tensors["shrunk.png"].permute(2, 0, 1)
    for h, w in ((16, 32), (47, 32), (50, 61), (70, 13), (1, 1)):
        resized = functional.resize(source, [h, w], interpolation=functional.InterpolationMode.BICUBIC, antialias=True)
        tensors[f"shrunk.png to {h} x {w}"] = resized.permute(1, 2, 0)
    for h, w in ((16, 32), (70, 13)):
        for kind in ("bilinear", "lanczos"):
            resized = functional.resize(source, [h, w], interpolation=functional.InterpolationMode(kind), antialias=True)
            tensors[f"shrunk.png to {h} x {w}, {kind}"] = resized.permute(1, 2, 0)
    frame = drawn(3, 4)
    moving = saved(frame, "WEBP", lossless=True, save_all=True, append_images=[frame.rotate(180)])
    (folder / "moving.webp").write_bytes(moving)
    save_file({k: x.contiguous() for k, x in tensors.items()}, folder / "images.safetensors")
    with tempfile.TemporaryDirectory() as scratch:
        made = {f.patches: f.processed(Path(scratch), folder)["patches"] for f in (Qwen, *ALL_FAMILIES.values())}
        save_file({k: x.contiguous() for k, x in made.items()}, folder / "patches.safetensors")


def with_tower(name: str, config: dict) -> dict:
    """A case's config with the tower that is drawn here."""
    vision = config["vision_config"] if name not in TEXT else {}
    text = dict(text_config=dict(config["text_config"], **INSIDE[name])) if name in INSIDE else {}
    return dict(config, vision_config=dict(vision, **TOWERS[name]), **text, **OUTSIDE.get(name, {}))


def case_of(name: str):
    case = next(c for c in CASES if c.name == TEXT.get(name, name))
    if name in WRAPPED:
        return case
    return dataclasses.replace(case, config=with_tower(name, case.config), published=None, served_tensors=None)


def tower_tensors(model):
    """Parameters and stored buffers of everything beside the language model."""
    parts = (model.get_decoder(), model.get_output_embeddings())
    inside = {id(p) for module in parts for p in module.state_dict(keep_vars=True).values()}
    return {name: p for name, p in model.state_dict(keep_vars=True).items() if id(p) not in inside}


def stored_name(case: str, name: str) -> str:
    for start, published in PUBLISHED.get(case, {}).items():
        if name.startswith(start):
            return published + name.removeprefix(start)
    return name


def around_text(name: str):
    """The entry of PICTURED with this case's text class and tower."""
    return dataclasses.replace(next(p for p in PICTURED if p.case == WRAPPED[name]), case=name, tower=TOWERS[name])


def golden_of(name: str, file: str) -> dict:
    return json.loads((GOLDEN / TEXT.get(name, name) / f"{file}.json").read_text())


def with_text(name: str, folder: Path, precision: str):
    """A model with the case's text weights."""
    if name in WRAPPED:
        return wrapped(around_text(name), load(case_of(name), GOLDEN / name, precision))
    if not (folder / "model.safetensors").exists():
        write_checkpoint(case_of(name), folder, golden_of(name, "golden")["seed"])
    return load(case_of(name), folder, precision)


def model_of(name: str, folder: Path, precision: str):
    """The case's text weights around a tower that is drawn here."""
    model = with_text(name, folder, precision)
    draw_tower(model, 1, Draw)
    drawn = getattr(ALL_FAMILIES.get(name, Qwen), "drawn", lambda *_: None)
    for parameter, p in tower_tensors(model).items():
        own = drawn(parameter, Draw(parameter, p.shape, 1))
        factor = 5 if ".lambda_" in parameter else 1  # so that what they multiply is felt
        p.data = ((p.data if own is None else own).bfloat16() * factor).to(p.dtype)  # as stored
    return model


def expanded(tokens: list[list[int]]) -> torch.Tensor:
    left = iter(tokens)
    return torch.tensor([[i for t in PROMPT for i in (next(left) if t == IMAGE else [t])]])


def text_tensors(model, inputs: dict) -> dict:
    hooks = [layer.register_forward_pre_hook(lambda m, args, i=i: setattr(CAPTURE, "layer", i))
             for i, layer in enumerate(layers_of(model))]
    CAPTURE.start()
    logits = model(**inputs, use_cache=False).logits[0, -1]
    CAPTURE.stop()
    for hook in hooks:
        hook.remove()
    return {f"{site}.{layer}": x for layer, sites in CAPTURE.sites.items() for site, x in sites.items()} | {"logits": logits}


@torch.no_grad()
def make(name: str, folder: Path, images: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    family = ALL_FAMILIES.get(name, Qwen)
    seen = family.processed(folder, images)
    ids = expanded(seen["tokens"])
    tensors = {}
    with tempfile.TemporaryDirectory() as scratch:
        for precision in PRECISIONS:
            model = model_of(name, Path(scratch), precision)
            made = family.tower_tensors(model, seen["inputs"])
            if precision == "f32":
                inputs, positions = family.of_prompt(model, ids, seen["inputs"])
                made |= text_tensors(model, dict(inputs, input_ids=ids))
            tensors |= {f"{precision}.{k}": x.detach().clone().contiguous() for k, x in made.items()}
        tower = {stored_name(name, n): p.data.bfloat16().contiguous() for n, p in tower_tensors(model).items()}
    save_file(family.stored(tower) if hasattr(family, "stored") else tower, folder / "tower.safetensors")
    save_file(tensors, folder / "golden.safetensors")
    config = (config_around(around_text(name), model.config.to_dict()) if name in WRAPPED else
              with_tower(name, golden_of(name, "config")))
    if hasattr(family, "published"):
        config = family.published(config, TOWERS[name])
    if name in PUBLISHED:
        left_out = set(LEFT_OUT) - TOWERS[name].keys()
        config["vision_config"] = {key: value for key, value in config["vision_config"].items() if key not in left_out}
    write_json(folder / "config.json", config)
    chat = family.chat(folder, images) if hasattr(family, "chat") else {}
    write_json(folder / "golden.json", {
        "made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
        "model": f"tests/arch/golden/{TEXT.get(name, name)}", "images": list(getattr(family, "fed", FED)),
        "patches": family.patches, "prompt": PROMPT, "grids": seen["grids"],
        "input_ids": ids[0].tolist(), "positions": positions, **chat})
    print(f"{name}: {ids.shape[1]} tokens, patches {list(seen['patches'].shape)}, rows {list(tensors['f32.rows'].shape)}",
          flush=True)


def compare(old: Path, new: Path) -> list[str]:
    a, b = load_file(old), load_file(new)
    if a.keys() != b.keys():
        return [f"{old.parent.name}: other tensors"]
    return [f"{old.parent.name}: {k}" for k in a if a[k].shape != b[k].shape or
            (a[k].float() - b[k].float()).abs().max() > 3e-2 * a[k].float().abs().max()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make again elsewhere and compare")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) if options.check else FOLDER
        write_images(out / "images")
        for name in TOWERS:
            make(name, out / name, out / "images")
        files = [f.relative_to(FOLDER) for f in FOLDER.glob("*/*.safetensors") if f.name != "tower.safetensors"]
        different = [d for f in files for d in compare(FOLDER / f, out / f)] if options.check else []
    print(*different, sep="\n", end="\n" if different else "")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
