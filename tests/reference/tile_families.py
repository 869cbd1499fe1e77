"""The families of `picture_families` whose processors cut pictures into tiles, each of which the tower sees alone."""

import tempfile
from pathlib import Path

import torch
import transformers
from PIL import Image
from tokenizers import decoders

from json_lines import write_json
from picture_families import (CHAT, FED, LlavaClip, behind_blocks, by_squares, chat_through, of_auto, through_tower,
                              tokens_through, write_tokenizer)
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
LLAMA4_PROCESSOR = dict(image_processor_type="Llama4ImageProcessorFast", size=dict(height=16, width=16), max_patches=4,
                        resize_to_max_canvas=False, resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
LLAMA4_TEMPLATE = ("{% for m in messages %}<|header_start|>{{ m['role'] }}<|header_end|>\n{% for c in m['content'] %}"
                   "{% if c['type'] == 'image' %}<|image|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|eot|>{% endfor %}")
INTERNVL_CHAT_TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
                          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
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


class InternVLChat(InternVL):
    """The same tower by the names of its makers, whose processing of pictures comes as code, which vLLM has too."""
    patches = "InternVLChatImageProcessor"

    @classmethod
    def processor_of(cls, folder: Path):
        from vllm.transformers_utils.processors.internvl import InternVLChatImageProcessor, InternVLChatProcessor
        special = {"<pad>": 0, "<|im_start|>": 89, "<|im_end|>": 90, "<IMG_CONTEXT>": IMAGE, "<img>": 93, "</img>": 94}
        plain = write_tokenizer(folder, {"\n": 38}, [], special)
        write_json(folder / "tokenizer_config.json", dict(added_tokens_decoder={str(IMAGE): dict(content="<IMG_CONTEXT>")}))
        plain.decoder = decoders.Fuse()  # as published ones, puts no spaces between tokens
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>")
        of_images = InternVLChatImageProcessor(image_size=cls.side * cls.patch, min_dynamic_patch=1, max_dynamic_patch=5,
                                               dynamic_image_size=True, use_thumbnail=True)
        return InternVLChatProcessor(of_images, tokenizer, image_seq_length=(cls.side // cls.merge) ** 2)

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        processor = cls.processor_of(folder)
        made = processor(text="<image>" * len(FED), images=[Image.open(images / f).convert("RGB") for f in FED],
                         return_tensors="pt")
        pixels, n_tiles = made["pixel_values_flat"], made["image_num_patches"].tolist()
        tokens = [[IMAGE] * n * processor.image_seq_length for n in n_tiles]
        assert made["input_ids"][0].tolist() == sum(([93, *t, 94] for t in tokens), [])
        return {"patches": torch.cat([blocks(x, cls.patch, cls.merge).flatten(1) for x in pixels]),
                "grids": [[n * cls.side, cls.side] for n in n_tiles], "tokens": tokens, "inputs": dict(pixel_values=pixels)}

    @staticmethod
    def published(config: dict, tower: dict) -> dict:
        """What the makers' config.json says of the framework's vision_config, and in place of an image processor's file."""
        keys = ("hidden_act", "hidden_size", "intermediate_size", "layer_norm_eps", "norm_type", "num_attention_heads",
                "num_channels", "num_hidden_layers")
        vision = {key: config["vision_config"][key] for key in keys} | dict(
            model_type="intern_vit_6b", image_size=tower["image_size"][0], patch_size=tower["patch_size"][0],
            qk_normalization=tower["use_qk_norm"], qkv_bias=tower["attention_bias"])
        return dict(config, vision_config=vision, downsample_ratio=0.5, dynamic_image_size=True,
                    force_image_size=vision["image_size"], max_dynamic_patch=5, min_dynamic_patch=1, ps_version="v2",
                    use_thumbnail=True)

    @staticmethod
    def stored(tower: dict) -> dict:
        """By the makers' names, with queries, keys and values in one weight."""
        names = {"model.multi_modal_projector.layer_norm": "mlp1.0", "model.multi_modal_projector.linear_1": "mlp1.1",
                 "model.multi_modal_projector.linear_2": "mlp1.3", "model.vision_tower": "vision_model",
                 "cls_token": "class_embedding", "patch_embeddings.projection": "patch_embedding",
                 "position_embeddings": "position_embedding", "encoder.layer.": "encoder.layers.", "attention": "attn",
                 "projection_layer": "proj", "layernorm_before": "norm1", "layernorm_after": "norm2", "lambda_": "ls"}
        out = {}
        for name, tensor in tower.items():
            for of_framework, own in names.items():
                name = name.replace(of_framework, own)
            parts = [name.replace("q_proj", f"{part}_proj") for part in "qkv"]
            out[name] = tensor
            if name.endswith("v_proj.weight") or name.endswith("v_proj.bias"):
                parts = [name.replace("v_proj", f"{part}_proj") for part in "qkv"]
                out[name.replace("v_proj", "qkv")] = torch.cat([out.pop(part) for part in parts])
        return out

    @classmethod
    def chat(cls, folder: Path, images: Path) -> dict:
        """vLLM puts what stands for the pictures of a message in front of its texts, each in a line."""
        (folder / "chat_template.jinja").write_text(INTERNVL_CHAT_TEMPLATE)
        processor = cls.processor_of(folder)
        flat = [dict(CHAT[0], content="\n".join(["<image>", CHAT[0]["content"][1]["text"]]))]
        text = processor.tokenizer.apply_chat_template(flat, chat_template=INTERNVL_CHAT_TEMPLATE, tokenize=False,
                                                       add_generation_prompt=True)
        ids = processor(text=text, images=[Image.open(images / FED[0])], return_tensors="pt")["input_ids"][0]
        return {"chat": CHAT, "chat_ids": ids.tolist()}


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


class Llama4:
    """Tiles with a token of their class behind them; pictures keep their size where the canvas has room, colors are bf16."""
    patches = "Llama4ImageProcessor"
    settings = LLAMA4_PROCESSOR
    patch, side, merge = 4, 4, 2
    fed = FED

    @classmethod
    def of_auto(cls, folder: Path):
        special = {"<pad>": 0, "<|header_start|>": 82, "<|header_end|>": 83, "<|eot|>": 84, "<|image|>": 88,
                   "<|tile_x_separator|>": 89, "<|tile_y_separator|>": 90, "<|patch|>": IMAGE, "<|image_start|>": 94,
                   "<|image_end|>": 95}
        write_tokenizer(folder, {"\n": 38}, [], special)
        write_json(folder / "preprocessor_config.json", cls.settings)
        processor = of_auto(folder, dict(processor_class="Llama4Processor", patch_size=cls.patch, pixel_shuffle_ratio=1 / cls.merge))
        assert type(processor.image_processor).__name__ == "Llama4ImageProcessor"
        return processor

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        processor, files = cls.of_auto(folder), [str(images / f) for f in cls.fed]
        made = processor(images=files, text="<|image|>" * len(files), return_tensors="pt")
        of_images = processor.image_processor(images=files, return_tensors="pt")
        pixels = made["pixel_values"]
        assert pixels.dtype == torch.bfloat16
        n_tiles = [n + (n > 1) for n in (rows * columns for rows, columns in of_images["aspect_ratios"].tolist())]
        return {"patches": torch.cat([blocks(x, cls.patch, cls.merge).flatten(1) for x in pixels]),
                "grids": [[n * cls.side, cls.side] for n in n_tiles], "tokens": tokens_through(processor, made, of_images),
                "inputs": dict(pixel_values=pixels)}

    @classmethod
    def in_squares(cls, out: tuple | torch.Tensor) -> torch.Tensor:
        """[tiles, patches + 1, hidden] -> [all of them, hidden], each tile's squares of merge x merge, then its class."""
        x = out[0] if isinstance(out, tuple) else out
        return torch.cat([by_squares(x[:, :-1], cls.side, cls.merge), x[:, -1:]], 1).flatten(0, 1)

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        with behind_blocks(model.vision_model.model.layers, cls.in_squares) as tensors:
            out = model.get_image_features(pixel_values=inputs["pixel_values"].to(model.dtype)).last_hidden_state
        return tensors | {"rows": model.multi_modal_projector(out.flatten(0, 1))}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return dict(pixel_values=inputs["pixel_values"].to(model.dtype)), [list(range(ids.shape[1]))]

    @classmethod
    def chat(cls, folder: Path, images: Path) -> dict:
        return chat_through(cls.of_auto(folder), LLAMA4_TEMPLATE, folder, images)


class Llama4Canvas(Llama4):
    """The same where every picture is made as large as a canvas allows."""
    patches = "Llama4ImageProcessor, patches of 8"
    settings = dict(LLAMA4_PROCESSOR, max_patches=3, resize_to_max_canvas=True, image_mean=[0.5, 0.4, 0.3],
                    image_std=[0.5, 0.3, 0.25])
    patch, side, merge = 8, 2, 2
    fed = ("tall.png", "grown.jpg")


TILE_FAMILIES = {"idefics3": Idefics3, "internvl": InternVL, "internvl_6b": InternVL,
                 "internvl_chat": InternVLChat, "llama4_dense": Llama4, "llama4": Llama4Canvas, "llava_next": LlavaNext,
                 "llava_onevision": LlavaOnevision, "smolvlm": SmolVlm}
