"""The families of `picture_families` whose processors cut pictures into tiles, each of which the tower sees alone."""

import tempfile
from pathlib import Path

import torch
import transformers

from json_lines import write_json
from picture_families import (FED, LlavaClip, by_squares, chat_through, of_auto, through_tower, tokens_through,
                              write_tokenizer)
from pictures import IMAGE, blocks

IDEFICS3_PROCESSOR = dict(image_processor_type="Idefics3ImageProcessor", do_image_splitting=False, resample=1,
                          size=dict(longest_edge=40), max_image_size=dict(longest_edge=26), image_mean=[0.5, 0.4, 0.3],
                          image_std=[0.5, 0.3, 0.25])
SMOLVLM_PROCESSOR = dict(IDEFICS3_PROCESSOR, image_processor_type="SmolVLMImageProcessor", do_image_splitting=True,
                         size=dict(longest_edge=28), max_image_size=dict(longest_edge=16))
INTERNVL_PROCESSOR = dict(image_processor_type="GotOcr2ImageProcessorFast", size=dict(height=16, width=16),
                          crop_to_patches=False, min_patches=1, max_patches=5, image_mean=[0.5, 0.4, 0.3],
                          image_std=[0.5, 0.3, 0.25])
LLAVA_NEXT_CANVASES = [[14, 28], [28, 14], [28, 28], [42, 14], [14, 42]]
LLAVA_NEXT_PROCESSOR = dict(image_processor_type="LlavaNextImageProcessor", size=dict(shortest_edge=14), resample=3,
                            crop_size=dict(height=14, width=14), do_pad=True, image_grid_pinpoints=LLAVA_NEXT_CANVASES,
                            image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
ONEVISION_CANVASES = [[14, 14], [14, 28], [28, 14], [28, 28]]
ONEVISION_PROCESSOR = dict(image_processor_type="LlavaOnevisionImageProcessor", size=dict(height=14, width=14), resample=3,
                           do_pad=True, image_grid_pinpoints=ONEVISION_CANVASES, image_mean=[0.5, 0.4, 0.3],
                           image_std=[0.5, 0.3, 0.25])
IDEFICS3_TEMPLATE = ("{% for m in messages %}{{ m['role'] }} {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
                     "{% else %}{{ c['text'] }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}")
INTERNVL_TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
                     "{% if c['type'] == 'image' %}<IMG_CONTEXT>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
                     "<|im_end|>\n{% endfor %}"
                     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


class LlavaNext(LlavaClip):
    """CLIP on the whole picture and on the tiles of a canvas, of which patches that hold nothing are dropped behind it."""
    patches = "LlavaNextImageProcessor"
    patch, side = 7, 2
    settings = LLAVA_NEXT_PROCESSOR
    named = dict(processor_class="LlavaNextProcessor", patch_size=7, num_additional_image_tokens=1,
                 vision_feature_select_strategy="default")
    kept = ("pixel_values", "image_sizes")

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", cls.settings)
        with tempfile.TemporaryDirectory() as name:
            write_json(Path(name) / "preprocessor_config.json", cls.settings)
            write_tokenizer(Path(name), {}, [], {"<pad>": 0, "<image>": IMAGE})
            processor = of_auto(Path(name), cls.named)
        assert type(processor.image_processor).__name__ == cls.patches
        made = processor(images=[str(images / f) for f in FED], text="<image>" * len(FED), return_tensors="pt")
        tiles = [processor.image_processor(images=[str(images / f)], return_tensors="pt")["pixel_values"][0] for f in FED]
        edge = cls.side * cls.patch
        return {"patches": torch.cat([blocks(x[:, :edge, :edge], cls.patch, 1).flatten(1) for t in tiles for x in t]),
                "grids": [[len(t) * cls.side, cls.side] for t in tiles], "tokens": tokens_through(processor, made),
                "inputs": {key: made[key] for key in cls.kept}}


class LlavaOnevision(LlavaNext):
    """SigLIP on such tiles, of which 2 pixels are left over; what is shown of the first picture shrinks behind it."""
    patches = "LlavaOnevisionImageProcessor"
    patch, side = 4, 3
    settings = ONEVISION_PROCESSOR
    named = dict(processor_class="LlavaOnevisionProcessor", num_image_tokens=9, vision_feature_select_strategy="full",
                 vision_aspect_ratio="anyres_max_2")
    kept = ("pixel_values", "image_sizes", "batch_num_images")

    @staticmethod
    def tower_tensors(model, inputs: dict) -> dict:
        layers = model.model.vision_tower.encoder.layers
        tensors, rows = through_tower(model, layers, lambda out: out.flatten(0, 1), inputs)
        return tensors | {"rows": torch.cat(list(rows))}


class InternVL:
    """A tower that takes tiles, each as a picture of its own, led by a token of its class."""
    patches = "GotOcr2ImageProcessor"
    patch, side, merge = 4, 4, 2

    @classmethod
    def processor_of(cls, folder: Path):
        special = {"<pad>": 0, "<|im_start|>": 89, "<|im_end|>": 90, "<video>": 91, "<IMG_CONTEXT>": IMAGE, "<img>": 93,
                   "</img>": 94}
        plain = write_tokenizer(folder, {"\n": 38}, [], special)
        named = dict(context_image_token="<IMG_CONTEXT>", start_image_token="<img>", end_image_token="</img>",
                     video_token="<video>")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", extra_special_tokens=named)
        write_json(folder / "preprocessor_config.json", INTERNVL_PROCESSOR)
        of_images = transformers.AutoImageProcessor.from_pretrained(folder)
        assert type(of_images) is transformers.GotOcr2ImageProcessor
        return transformers.InternVLProcessor(
            image_processor=of_images, tokenizer=tokenizer, video_processor=transformers.InternVLVideoProcessor(),
            image_seq_length=(cls.side // cls.merge) ** 2)

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        processor = cls.processor_of(folder)
        tiles = [processor(images=[str(images / f)], text="<IMG_CONTEXT>", return_tensors="pt")["pixel_values"] for f in FED]
        pixels = torch.cat(tiles)
        patches = torch.cat([blocks(x, cls.patch, cls.merge).flatten(1) for x in pixels])
        return {"patches": patches, "grids": [[len(t) * cls.side, cls.side] for t in tiles],
                "tokens": [[IMAGE] * len(t) * (cls.side // cls.merge) ** 2 for t in tiles], "inputs": dict(pixel_values=pixels)}

    @classmethod
    def in_squares(cls, out: torch.Tensor) -> torch.Tensor:
        """[tiles, 1 + patches, hidden] -> [all of them, hidden], each tile's class, then its squares of merge x merge."""
        return torch.cat([out[:, :1], by_squares(out[:, 1:], cls.side, cls.merge)], 1).flatten(0, 1)

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        tensors, rows = through_tower(model, model.model.vision_tower.encoder.layer, cls.in_squares, inputs)
        return tensors | {"rows": rows.flatten(0, 1)}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return inputs, [list(range(ids.shape[1]))]

    @classmethod
    def chat(cls, folder: Path, images: Path) -> dict:
        return chat_through(cls.processor_of(folder), INTERNVL_TEMPLATE, folder, images)


class Idefics3:
    """SigLIP on one tile for each picture, of which 2 pixels are left over by the patches."""
    patches = "Idefics3ImageProcessor"
    processor_class, settings = "Idefics3Processor", IDEFICS3_PROCESSOR
    patch, side, merge = 4, 6, 3
    special = {}
    fed = FED

    @classmethod
    def of_auto(cls, folder: Path):
        named = {"<end_of_utterance>": 89, "<fake_token_around_image>": 90, "<image>": IMAGE}
        signs = {c: 41 + i for i, c in enumerate(("\n", "\n\n", "<", ">", "-", "_", "1", "2"))}
        write_tokenizer(folder, signs, [("\n", "\n")], {"<pad>": 0} | cls.special | named)
        write_json(folder / "preprocessor_config.json", cls.settings)
        processor = of_auto(folder, dict(processor_class=cls.processor_class, image_seq_len=(cls.side // cls.merge) ** 2))
        assert type(processor.image_processor).__name__ == cls.patches
        return processor

    @classmethod
    def in_squares(cls, out: torch.Tensor) -> torch.Tensor:
        """[tiles, patches, hidden] -> [all patches, hidden]."""
        return by_squares(out, cls.side, cls.merge).flatten(0, 1)

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        processor, files = cls.of_auto(folder), [str(images / f) for f in cls.fed]
        made = processor(images=[files], text="<image>" * len(files), return_tensors="pt")
        tiles = processor.image_processor(images=[files], return_tensors="pt", return_row_col_info=True)
        n_tiles = [rows * columns + 1 for rows, columns in zip(tiles["rows"][0], tiles["cols"][0])]
        assert sum(n_tiles) == made["pixel_values"].shape[1]
        edge = cls.side * cls.patch
        cut = [blocks(x[:, :edge, :edge], cls.patch, cls.merge).flatten(1) for x in made["pixel_values"][0]]
        inputs = {key: made[key] for key in ("pixel_values", "pixel_attention_mask")}
        return {"patches": torch.cat(cut), "grids": [[n * cls.side, cls.side] for n in n_tiles],
                "tokens": tokens_through(processor, made, tiles), "inputs": inputs}

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        tensors, rows = through_tower(model, model.model.vision_model.encoder.layers, cls.in_squares, inputs)
        return tensors | {"rows": torch.cat(list(rows))}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return inputs, [list(range(ids.shape[1]))]

    @classmethod
    def chat(cls, folder: Path, images: Path) -> dict:
        return chat_through(cls.of_auto(folder), IDEFICS3_TEMPLATE, folder, images)


class SmolVlm(Idefics3):
    """The same on several tiles, which tokens of their own tell apart."""
    patches = "SmolVLMImageProcessor"
    processor_class, settings = "SmolVLMProcessor", SMOLVLM_PROCESSOR
    patch, side, merge = 4, 4, 2
    special = {"<global-img>": 88} | {f"<row_{r}_col_{c}>": 60 + 2 * r + c for r in (1, 2) for c in (1, 2)}
    fed = ("shrunk.png", "wide.png")


TILE_FAMILIES = {"idefics3": Idefics3, "internvl": InternVL, "internvl_6b": InternVL, "llava_next": LlavaNext,
                 "llava_onevision": LlavaOnevision, "smolvlm": SmolVlm}
