"""Makes tests/arch/pictures: files of pictures, what the reference framework reads, cuts and sees in them.

    python make_picture_goldens.py [--check]

images/: small pictures, drawn here, in the forms of PNG and JPEG; images.safetensors: their pixels as the framework's
processors get them (torchvision's decode_image), and after its resizing to `size`; patches.safetensors: the patches of FED
by each of its processors (those that AutoProcessor gives where there is torchvision).
<case>/: tests/arch/golden/<case> with a tower of its own (tower.safetensors, config.json, preprocessor_config.json) and a
prompt with two pictures. golden.safetensors: in f32 and bf16 the stream behind each block of the tower for both
pictures, its rows, streams of deepstack; in f32 Q, K, V of the language model and the logits of the last position.
golden.json: the prompt's ids behind the processor, and its positions. Where a processor writes more for a picture than the
chat template: a tokenizer, a template, and the ids of `chat`.
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
from PIL import Image
from safetensors.torch import load_file, save_file
from torchvision.io import ImageReadMode, decode_image
from tokenizers import Tokenizer, models
from torchvision.transforms.v2 import functional

from cases import CASES
from golden_checkpoint import Draw, write_checkpoint
from json_lines import write_json
from make_arch_goldens import GOLDEN, PRECISIONS, load
from make_embedding_golden import CAPTURE, layers_of
from pictures import IMAGE, blocks, draw_tower, picture

FOLDER = GOLDEN.parent / "pictures"
TOWER = dict(depth=2, hidden_size=16, intermediate_size=16, num_heads=2, num_position_embeddings=16, patch_size=4,
             spatial_merge_size=2, temporal_patch_size=2)
PROCESSOR = dict(image_processor_type="Qwen2VLImageProcessorFast", patch_size=4, merge_size=2, temporal_patch_size=2,
                 size=dict(shortest_edge=320, longest_edge=768), image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
QWEN2 = dict(depth=2, embed_dim=16, hidden_size=48, num_heads=2, mlp_ratio=2, patch_size=4)
QWEN25 = dict(depth=2, hidden_size=16, intermediate_size=24, num_heads=2, out_hidden_size=48, patch_size=4, window_size=16,
              fullatt_block_indexes=[1])
SIGLIP = dict(model_type="siglip_vision_model", hidden_size=16, intermediate_size=24, num_hidden_layers=2,
              num_attention_heads=2, image_size=24, patch_size=4, vision_use_head=False)
GEMMA3_PROCESSOR = dict(image_processor_type="Gemma3ImageProcessor", size=dict(height=24, width=24), do_convert_rgb=None,
                        do_pan_and_scan=None, resample=2, image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
TOWERS = {"gemma3_vl": SIGLIP, "qwen2_vl": QWEN2, "qwen2_5_vl": QWEN25, "qwen3_vl": dict(TOWER, deepstack_visual_indexes=[0]),
          "qwen3_5_vl": TOWER, "qwen3_vl_moe": dict(TOWER, depth=1, deepstack_visual_indexes=[0]),
          "qwen3_5_moe_vl": dict(TOWER, depth=1)}
PUBLISHED = {"qwen2_vl": {"model.": ""}, "qwen2_5_vl": {"model.": ""},  # names in older files
             "gemma3_vl": {"model.vision_tower.": "vision_tower.vision_model.", "model.": ""}}
LEFT_OUT = ("hidden_act", "in_channels", "rope_parameters", "spatial_merge_size", "temporal_patch_size")  # of their configs
PROMPT = [5, 71, 94, IMAGE, 95, 23, 94, IMAGE, 95, 44, 8, 60]
CHAT = [{"role": "user", "content": [{"type": "image", "image": "shrunk.png"}, {"type": "text", "text": "what is it?"}]}]
TEMPLATE = ("{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
            "<start_of_image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
            "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")
FED = ("shrunk.png", "grown.jpg")  # more pixels than longest_edge, fewer than shortest_edge


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
        "turned.png": saved(small, "PNG", exif=turned(8)),
    }
    return files | {f"turned_{i}.jpg": saved(half, "JPEG", quality=30, exif=turned(i)) for i in range(2, 9)}


def write_images(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for name, data in image_files().items():
        (folder / name).write_bytes(data)
        pixels = decode_image(folder / name, mode=ImageReadMode.RGB, apply_exif_orientation=True)
        tensors[name] = pixels.permute(1, 2, 0)
    deep = torch.arange(0, 65536, 771).reshape(2, 43)  # the framework leaves 16 bits as they are
    (folder / "deep.png").write_bytes(saved(Image.fromarray(deep.numpy().astype("uint16")), "PNG"))
    tensors["deep.png"] = (deep / 257).round().byte()[..., None].expand(-1, -1, 3)
    source = tensors["shrunk.png"].permute(2, 0, 1)
    for h, w in ((16, 32), (47, 32), (50, 61), (70, 13), (1, 1)):
        resized = functional.resize(source, [h, w], interpolation=functional.InterpolationMode.BICUBIC, antialias=True)
        tensors[f"shrunk.png to {h} x {w}"] = resized.permute(1, 2, 0)
    for h, w in ((16, 32), (70, 13)):
        resized = functional.resize(source, [h, w], interpolation=functional.InterpolationMode.BILINEAR, antialias=True)
        tensors[f"shrunk.png to {h} x {w}, bilinear"] = resized.permute(1, 2, 0)
    save_file({k: x.contiguous() for k, x in tensors.items()}, folder / "images.safetensors")
    with tempfile.TemporaryDirectory() as scratch:
        made = {f.processor: f.processed(Path(scratch), folder)["patches"] for f in (Qwen, Gemma3)}
        save_file({k: x.contiguous() for k, x in made.items()}, folder / "patches.safetensors")


def case_of(name: str):
    case = next(c for c in CASES if c.name == name)
    return dataclasses.replace(case, config=dict(case.config, vision_config=dict(case.config["vision_config"], **TOWERS[name])),
                               published=None)


def tower_parameters(model):
    """Of everything beside the language model."""
    inside = {id(p) for module in (model.get_decoder(), model.get_output_embeddings()) for p in module.parameters()}
    return {name: p for name, p in model.named_parameters() if id(p) not in inside}


def stored_name(case: str, name: str) -> str:
    for start, published in PUBLISHED.get(case, {}).items():
        if name.startswith(start):
            return published + name.removeprefix(start)
    return name


def model_of(name: str, folder: Path, precision: str):
    """The case's text weights around a tower that is drawn here."""
    if not (folder / "model.safetensors").exists():
        write_checkpoint(case_of(name), folder, json.loads((GOLDEN / name / "golden.json").read_text())["seed"])
    model = load(case_of(name), folder, precision)
    draw_tower(model, 1, Draw)
    for p in tower_parameters(model).values():
        p.data = p.data.bfloat16().to(p.dtype)  # as stored
    return model


def expanded(counts: list[int]) -> torch.Tensor:
    left = iter(counts)
    return torch.tensor([[i for t in PROMPT for i in ([t] * next(left) if t == IMAGE else [t])]])


def behind_blocks(layers, order):
    """Hooks that keep what comes out of the blocks, patch by patch."""
    tensors = {}
    return tensors, [layer.register_forward_hook(lambda m, a, out, i=i: tensors.update({f"block.{i}": order(out)}))
                     for i, layer in enumerate(layers)]


class Qwen:
    """Towers whose pictures keep their shape."""
    processor = "Qwen2VLImageProcessor"

    @staticmethod
    def processed(folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", PROCESSOR)
        made = transformers.Qwen2VLImageProcessor.from_pretrained(folder)(
            images=[str(images / f) for f in FED], return_tensors="pt")
        grids = made["image_grid_thw"]
        n_rows = (grids.prod(1) // TOWER["spatial_merge_size"] ** 2).tolist()
        return {"patches": made["pixel_values"], "grids": grids[:, 1:].tolist(), "n_rows": n_rows, "inputs": dict(made)}

    @staticmethod
    def tower_tensors(model, inputs: dict) -> dict:
        visual = model.model.visual
        visual.set_attn_implementation("eager")
        tensors, hooks = behind_blocks(visual.blocks, lambda out: out)
        out = visual(inputs["pixel_values"].to(model.dtype), grid_thw=inputs["image_grid_thw"])
        for hook in hooks:
            hook.remove()
        streams = getattr(out, "deepstack_features", None) or []
        return tensors | {"rows": out.pooler_output} | {f"deepstack.{i}": x for i, x in enumerate(streams)}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        """What the model takes, and the positions that it gives tokens."""
        types = (ids == IMAGE).long()
        positions = model.model.get_rope_index(ids, types, image_grid_thw=inputs["image_grid_thw"])[0]
        return dict(inputs, mm_token_type_ids=types), positions[:, 0].tolist()


class Gemma3:
    """A tower that takes squares; the framework's rows of patches go on from one edge of the picture to the other."""
    processor = "Gemma3ImageProcessor"
    patch, side, merge = 4, 6, 3

    @classmethod
    def in_squares(cls, out: torch.Tensor) -> torch.Tensor:
        """[pictures, patches, hidden] -> [all patches, hidden], squares of merge x merge one after the other."""
        n, m = cls.side // cls.merge, cls.merge
        return out.reshape(-1, n, m, n, m, out.shape[-1]).transpose(2, 3).reshape(-1, out.shape[-1])

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", GEMMA3_PROCESSOR)
        made = transformers.AutoImageProcessor.from_pretrained(folder)(
            images=[str(images / f) for f in FED], return_tensors="pt", do_convert_rgb=True)
        assert type(transformers.AutoImageProcessor.from_pretrained(folder)) is transformers.Gemma3ImageProcessor
        patches = torch.cat([blocks(x, cls.patch, cls.merge).flatten(1) for x in made["pixel_values"]])
        return {"patches": patches, "grids": [[cls.side] * 2] * 2, "n_rows": [(cls.side // cls.merge) ** 2] * 2,
                "inputs": dict(pixel_values=made["pixel_values"])}

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        model.model.vision_tower.set_attn_implementation("eager")
        tensors, hooks = behind_blocks(model.model.vision_tower.encoder.layers, cls.in_squares)
        out = model.model.get_image_features(inputs["pixel_values"].to(model.dtype))
        for hook in hooks:
            hook.remove()
        return tensors | {"rows": out.pooler_output.flatten(0, 1)}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return dict(inputs, token_type_ids=(ids == IMAGE).long()), [list(range(ids.shape[1]))]

    @staticmethod
    def chat(folder: Path, images: Path) -> dict:
        """A tokenizer in which line breaks join, and what the processor makes of a chat."""
        words = {c: 10 + i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ?")} | {"\n" * n: 40 + n for n in (1, 2, 3)}
        special = {"<pad>": 0, "<start_of_turn>": 89, "<end_of_turn>": 90, "<image_soft_token>": IMAGE, "<start_of_image>": 93,
                   "<end_of_image>": 94}
        plain = Tokenizer(models.BPE(vocab=words | special, merges=[("\n", "\n"), ("\n\n", "\n")]))
        plain.add_special_tokens(list(special))
        plain.save(str(folder / "tokenizer.json"), pretty=False)
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        named = dict(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", extra_special_tokens=named)
        processor = transformers.Gemma3Processor(
            image_processor=transformers.Gemma3ImageProcessor.from_pretrained(folder), tokenizer=tokenizer, image_seq_length=4)
        text = processor.apply_chat_template(CHAT, chat_template=TEMPLATE, tokenize=False, add_generation_prompt=True)
        ids = processor(images=[str(images / FED[0])], text=text)["input_ids"][0]
        return {"chat": CHAT, "chat_ids": list(ids)}


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
    family = Gemma3 if name == "gemma3_vl" else Qwen
    seen = family.processed(folder, images)
    ids = expanded(seen["n_rows"])
    tensors = {}
    with tempfile.TemporaryDirectory() as scratch:
        for precision in PRECISIONS:
            model = model_of(name, Path(scratch), precision)
            made = family.tower_tensors(model, seen["inputs"])
            if precision == "f32":
                inputs, positions = family.of_prompt(model, ids, seen["inputs"])
                made |= text_tensors(model, dict(inputs, input_ids=ids))
            tensors |= {f"{precision}.{k}": x.detach().clone().contiguous() for k, x in made.items()}
        tower = {stored_name(name, n): p.data.bfloat16().contiguous() for n, p in tower_parameters(model).items()}
    save_file(tower, folder / "tower.safetensors")
    save_file(tensors, folder / "golden.safetensors")
    config = json.loads((GOLDEN / name / "config.json").read_text())
    vision = dict(config["vision_config"], **TOWERS[name])
    if name in PUBLISHED:
        vision = {key: value for key, value in vision.items() if key not in LEFT_OUT}
    write_json(folder / "config.json", dict(config, vision_config=vision))
    chat = family.chat(folder, images) if hasattr(family, "chat") else {}
    write_json(folder / "golden.json", {
        "made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
        "model": f"tests/arch/golden/{name}", "images": list(FED), "prompt": PROMPT, "grids": seen["grids"],
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
