"""What the reference framework's processors and towers make of pictures, a family of models at a time: the patches and tokens
behind the processor, the stream behind each block of the tower and its rows (make_picture_goldens.py).
"""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models

from json_lines import write_json
from pictures import IMAGE, blocks

PROCESSOR = dict(image_processor_type="Qwen2VLImageProcessorFast", patch_size=4, merge_size=2, temporal_patch_size=2,
                 size=dict(shortest_edge=320, longest_edge=768), image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
GLM4V_PROCESSOR = dict(image_processor_type="Glm4vImageProcessor", patch_size=4, merge_size=2, temporal_patch_size=2,
                       size=dict(shortest_edge=576, longest_edge=1600), image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
GEMMA3_PROCESSOR = dict(image_processor_type="Gemma3ImageProcessor", size=dict(height=24, width=24), do_convert_rgb=None,
                        do_pan_and_scan=None, resample=2, image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
CLIP_PROCESSOR = dict(image_processor_type="CLIPImageProcessor", size=dict(shortest_edge=24), resample=3, do_center_crop=True,
                      crop_size=dict(height=24, width=24), image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
PIXTRAL_PROCESSOR = dict(image_processor_type="PixtralImageProcessorFast", patch_size=dict(height=4, width=4), resample=3,
                         size=dict(longest_edge=30), image_mean=[0.5, 0.4, 0.3], image_std=[0.5, 0.3, 0.25])
CHAT = [{"role": "user", "content": [{"type": "image", "image": "shrunk.png"}, {"type": "text", "text": "what is it?"}]}]
TEMPLATE = ("{% for m in messages %}<start_of_turn>{{ m['role'] }}\n{% for c in m['content'] %}{% if c['type'] == 'image' %}"
            "<start_of_image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}"
            "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}")
PIXTRAL_TEMPLATE = ("{% for m in messages %}[INST]{% for c in m['content'] %}{% if c['type'] == 'image' %}[IMG]{% else %}"
                    "{{ c['text'] }}{% endif %}{% endfor %}[/INST]{% endfor %}")
FED = ("shrunk.png", "grown.jpg")  # more pixels than longest_edge, fewer than shortest_edge; several tiles, one tile


def write_tokenizer(folder: Path, more: dict, merges: list, special: dict) -> Tokenizer:
    """Of letters, space and question mark, and what is given."""
    words = {c: 10 + i for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ?")}
    plain = Tokenizer(models.BPE(vocab=words | more | special, merges=merges))
    plain.add_special_tokens(list(special))
    plain.save(str(folder / "tokenizer.json"), pretty=False)
    return plain


def chat_through(processor, template: str, folder: Path, images: Path) -> dict:
    (folder / "chat_template.jinja").write_text(template)
    text = processor.apply_chat_template(CHAT, chat_template=template, tokenize=False, add_generation_prompt=True)
    ids = processor(images=[str(images / FED[0])], text=text, return_tensors="pt")["input_ids"][0]
    return {"chat": CHAT, "chat_ids": ids.tolist()}


def of_auto(folder: Path, settings: dict):
    """The processor that AutoProcessor gives for files like the published ones."""
    with tempfile.TemporaryDirectory() as name:
        published = Path(name)
        for file in ("preprocessor_config.json", "tokenizer.json"):
            (published / file).write_text((folder / file).read_text())
        write_json(published / "tokenizer_config.json", dict(tokenizer_class="PreTrainedTokenizerFast", pad_token="<pad>"))
        write_json(published / "processor_config.json", settings)
        processor = transformers.AutoProcessor.from_pretrained(published)
    assert type(processor).__name__ == settings["processor_class"]
    return processor


def tokens_through(processor, made: dict, image_inputs: dict | None = None) -> list[list[int]]:
    """Of each of the pictures behind the processor, whose text was nothing else."""
    tokens = [processor.tokenizer(processor.replace_image_token(image_inputs or made, i), add_special_tokens=False)["input_ids"]
              for i in range(len(FED))]
    assert sum(tokens, []) == made["input_ids"][0].tolist()
    return tokens


def by_squares(out: torch.Tensor, side: int, merge: int) -> torch.Tensor:
    """[pictures, patches, hidden], squares of merge x merge patches one after the other."""
    n = side // merge
    return out.reshape(-1, n, merge, n, merge, out.shape[-1]).transpose(2, 3).reshape(out.shape)


@contextmanager
def behind_blocks(layers, order):
    """Keeps what comes out of the blocks, patch by patch."""
    tensors = {}
    hooks = [layer.register_forward_hook(lambda m, a, out, i=i: tensors.update({f"block.{i}": order(out)}))
             for i, layer in enumerate(layers)]
    yield tensors
    for hook in hooks:
        hook.remove()


def through_tower(model, layers, order, inputs: dict) -> tuple[dict, object]:
    """What comes out of the blocks, and the rows behind the projector."""
    model.model.get_encoder(modality="image").set_attn_implementation("eager")
    with behind_blocks(layers, order) as tensors:
        out = model.model.get_image_features(**dict(inputs, pixel_values=inputs["pixel_values"].to(model.dtype)))
    return tensors, out.pooler_output


class Qwen:
    """Towers whose pictures keep their shape."""
    patches = "Qwen2VLImageProcessor"

    @staticmethod
    def processed(folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", PROCESSOR)
        made = transformers.Qwen2VLImageProcessor.from_pretrained(folder)(
            images=[str(images / f) for f in FED], return_tensors="pt")
        grids = made["image_grid_thw"]
        tokens = [[IMAGE] * n for n in (grids.prod(1) // PROCESSOR["merge_size"] ** 2).tolist()]
        return {"patches": made["pixel_values"], "grids": grids[:, 1:].tolist(), "tokens": tokens, "inputs": dict(made)}

    @staticmethod
    def tower_tensors(model, inputs: dict) -> dict:
        visual = model.model.visual
        visual.set_attn_implementation("eager")
        with behind_blocks(visual.blocks, lambda out: out) as tensors:
            out = visual(inputs["pixel_values"].to(model.dtype), grid_thw=inputs["image_grid_thw"])
        streams = getattr(out, "deepstack_features", None) or []
        return tensors | {"rows": out.pooler_output} | {f"deepstack.{i}": x for i, x in enumerate(streams)}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        """What the model takes, and the positions that it gives tokens."""
        types = (ids == IMAGE).long()
        positions = model.model.get_rope_index(ids, types, image_grid_thw=inputs["image_grid_thw"])[0]
        return dict(inputs, mm_token_type_ids=types), positions[:, 0].tolist()


class Glm4v(Qwen):
    """The same for a tower whose processor counts the pixels of all frames."""
    patches = "Glm4vImageProcessor"
    settings = GLM4V_PROCESSOR

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", cls.settings)
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        assert type(processor) is transformers.Glm4vImageProcessor
        made = processor(images=[str(images / f) for f in FED], return_tensors="pt")
        grids = made["image_grid_thw"]
        tokens = [[IMAGE] * n for n in (grids.prod(1) // processor.merge_size ** 2).tolist()]
        return {"patches": made["pixel_values"], "grids": grids[:, 1:].tolist(), "tokens": tokens, "inputs": dict(made)}


class Gemma3:
    """A tower that takes squares; the framework's rows of patches go on from one edge of the picture to the other."""
    patches = "Gemma3ImageProcessor"
    patch, side, merge = 4, 6, 3

    @classmethod
    def in_squares(cls, out: torch.Tensor) -> torch.Tensor:
        """[pictures, patches, hidden] -> [all patches, hidden]."""
        return by_squares(out, cls.side, cls.merge).flatten(0, 1)

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", GEMMA3_PROCESSOR)
        made = transformers.AutoImageProcessor.from_pretrained(folder)(
            images=[str(images / f) for f in FED], return_tensors="pt", do_convert_rgb=True)
        assert type(transformers.AutoImageProcessor.from_pretrained(folder)) is transformers.Gemma3ImageProcessor
        patches = torch.cat([blocks(x, cls.patch, cls.merge).flatten(1) for x in made["pixel_values"]])
        return {"patches": patches, "grids": [[cls.side] * 2] * 2, "tokens": [[IMAGE] * (cls.side // cls.merge) ** 2] * 2,
                "inputs": dict(pixel_values=made["pixel_values"])}

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        tensors, rows = through_tower(model, model.model.vision_tower.encoder.layers, cls.in_squares, inputs)
        return tensors | {"rows": rows.flatten(0, 1)}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return dict(inputs, token_type_ids=(ids == IMAGE).long()), [list(range(ids.shape[1]))]

    @staticmethod
    def chat(folder: Path, images: Path) -> dict:
        """A tokenizer in which line breaks join, and what the processor makes of a chat."""
        special = {"<pad>": 0, "<start_of_turn>": 89, "<end_of_turn>": 90, "<image_soft_token>": IMAGE, "<start_of_image>": 93,
                   "<end_of_image>": 94}
        breaks = {"\n" * n: 40 + n for n in (1, 2, 3)}
        plain = write_tokenizer(folder, breaks, [("\n", "\n"), ("\n\n", "\n")], special)
        named = dict(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", extra_special_tokens=named)
        processor = transformers.Gemma3Processor(
            image_processor=transformers.Gemma3ImageProcessor.from_pretrained(folder), tokenizer=tokenizer, image_seq_length=4)
        return chat_through(processor, TEMPLATE, folder, images)


class Mistral3:
    """Pixtral, of which squares are merged. The processor tells pixels from padding, and ends rows with tokens of their own."""
    patches = "PixtralImageProcessor"
    patch, merge = 4, 2

    @classmethod
    def of_auto(cls, folder: Path):
        special = {"<pad>": 0, "[INST]": 88, "[/INST]": 89, "[IMG_END]": 90, "[IMG_BREAK]": 91, "[IMG]": IMAGE}
        write_tokenizer(folder, {}, [], special)
        write_json(folder / "preprocessor_config.json", PIXTRAL_PROCESSOR)
        processor = of_auto(folder, dict(processor_class="PixtralProcessor", patch_size=cls.patch, spatial_merge_size=cls.merge))
        assert type(processor.image_processor) is transformers.PixtralImageProcessor
        return processor

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        processor = cls.of_auto(folder)
        made = processor(images=[str(images / f) for f in FED], text="[IMG]" * len(FED), return_tensors="pt")
        sizes = made["image_sizes"]
        cut = [x[:, :h, :w] for x, (h, w) in zip(made["pixel_values"], sizes.tolist())]
        tokens = tokens_through(processor, made)
        return {"patches": torch.cat([blocks(x, cls.patch, cls.merge).flatten(1) for x in cut]),
                "grids": (sizes // cls.patch).tolist(), "tokens": tokens,
                "inputs": dict(pixel_values=made["pixel_values"], image_sizes=sizes)}

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        grids = (inputs["image_sizes"] // cls.patch).tolist()

        def in_squares(out: torch.Tensor) -> torch.Tensor:
            m, pictures = cls.merge, out[0].split([h * w for h, w in grids])
            return torch.cat([x.reshape(h // m, m, w // m, m, -1).transpose(1, 2).reshape(h * w, -1)
                              for x, (h, w) in zip(pictures, grids)])

        tensors, rows = through_tower(model, model.model.vision_tower.transformer.layers, in_squares, inputs)
        return tensors | {"rows": torch.cat(rows)}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return inputs, [list(range(ids.shape[1]))]

    @classmethod
    def chat(cls, folder: Path, images: Path) -> dict:
        return chat_through(cls.of_auto(folder), PIXTRAL_TEMPLATE, folder, images)


class LlavaPixtral(Mistral3):
    """Pixtral, of which every patch is projected."""
    patches = "PixtralImageProcessor, patches of 8"
    patch, merge = 8, 1


class LlavaClip:
    """CLIP, whose squares are the middle of a picture; what comes out of the last block but one is projected."""
    patches = "CLIPImageProcessor"
    patch, side = 8, 3

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", CLIP_PROCESSOR)
        with tempfile.TemporaryDirectory() as name:
            write_json(Path(name) / "preprocessor_config.json", CLIP_PROCESSOR)
            write_tokenizer(Path(name), {}, [], {"<pad>": 0, "<image>": IMAGE})
            processor = of_auto(Path(name), dict(processor_class="LlavaProcessor", patch_size=cls.patch,
                                                 num_additional_image_tokens=1, vision_feature_select_strategy="default"))
        assert type(processor.image_processor) is transformers.CLIPImageProcessor
        made = processor(images=[str(images / f) for f in FED], text="<image>" * len(FED), return_tensors="pt")
        return {"patches": torch.cat([blocks(x, cls.patch, 1).flatten(1) for x in made["pixel_values"]]),
                "grids": [[cls.side] * 2] * 2, "tokens": tokens_through(processor, made),
                "inputs": dict(pixel_values=made["pixel_values"])}

    @staticmethod
    def tower_tensors(model, inputs: dict) -> dict:
        layers = model.model.vision_tower.encoder.layers
        tensors, rows = through_tower(model, layers, lambda out: out.flatten(0, 1), inputs)
        return {k: x for k, x in tensors.items() if k != f"block.{len(layers) - 1}"} | {"rows": torch.cat(list(rows))}

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return inputs, [list(range(ids.shape[1]))]


FAMILIES = {"gemma3_vl": Gemma3, "glm4v": Glm4v, "glm4v_moe": Glm4v, "llava": LlavaClip, "mistral3": Mistral3, "llava_pixtral": LlavaPixtral}
