"""The families of `picture_families` whose processors pad pictures to the same number of patches."""

from pathlib import Path

import torch
import transformers

from json_lines import write_json
from picture_families import TEMPLATE, behind_blocks, chat_through, write_tokenizer
from pictures import IMAGE

GEMMA4_PROCESSOR = dict(image_processor_type="Gemma4ImageProcessor", do_convert_rgb=True, do_normalize=False, do_rescale=True,
                        do_resize=True, image_mean=[0.0] * 3, image_std=[1.0] * 3, image_seq_length=70, max_soft_tokens=70,
                        patch_size=2, pooling_kernel_size=2, resample=3, rescale_factor=1 / 255)


class Gemma4:
    """A tower that takes patches with their places; the framework pads pictures to the same number of them."""
    patches = "Gemma4ImageProcessor"
    fed = ("slender.png", "tall.png")  # fewest rows of all shapes: one line of them, two columns
    patch, merge = 2, 2

    @classmethod
    def in_squares(cls, padded: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """[pictures, patches and padding, n] -> [all patches, n]."""
        kept = []
        for x, at in zip(padded, places):
            w, h = (at.max(0).values + 1).tolist()
            rows = x[:h * w].reshape(h // cls.merge, cls.merge, w // cls.merge, cls.merge, -1)
            kept.append(rows.transpose(1, 2).reshape(h * w, -1))
        return torch.cat(kept)

    @classmethod
    def processed(cls, folder: Path, images: Path) -> dict:
        write_json(folder / "preprocessor_config.json", GEMMA4_PROCESSOR)
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        assert type(processor) is transformers.Gemma4ImageProcessor
        made = processor(images=[str(images / f) for f in cls.fed], return_tensors="pt")
        places = made["image_position_ids"]
        colors = cls.in_squares(2 * (made["pixel_values"] - 0.5), places)  # as the model begins
        return {"patches": colors.reshape(-1, cls.patch ** 2, 3).transpose(1, 2).flatten(1),
                "grids": [(at.max(0).values + 1).flip(0).tolist() for at in places],
                "tokens": [[IMAGE] * n for n in made["num_soft_tokens_per_image"]],
                "inputs": dict(pixel_values=made["pixel_values"], image_position_ids=places)}

    @classmethod
    def tower_tensors(cls, model, inputs: dict) -> dict:
        tower = model.model.vision_tower
        tower.set_attn_implementation("eager")
        with behind_blocks(tower.encoder.layers, lambda out: cls.in_squares(out, inputs["image_position_ids"])) as tensors:
            rows = model.model.get_image_features(**inputs).pooler_output
        return tensors | {"rows": torch.cat(rows)}

    @staticmethod
    def drawn(name: str, draw) -> torch.Tensor | None:
        """Bounds that values are beyond, positions and statistics that are felt."""
        if "position_embedding_table" in name or name.endswith("std_bias"):
            return draw.normal(1)
        if name.endswith(("_max", "std_scale")):
            return draw.uniform(0.6, 1.4)
        return -draw.uniform(0.6, 1.4) if name.endswith("_min") else None

    @staticmethod
    def of_prompt(model, ids: torch.Tensor, inputs: dict) -> tuple[dict, list]:
        return dict(inputs, mm_token_type_ids=(ids == IMAGE).long()), [list(range(ids.shape[1]))]

    @staticmethod
    def chat(folder: Path, images: Path) -> dict:
        named = dict(image_token="<|image|>", boi_token="<|image>", eoi_token="<image|>", audio_token="<|audio|>",
                     boa_token="<|audio>", eoa_token="<audio|>")
        special = {"<pad>": 0, "<start_of_turn>": 1, "<end_of_turn>": 2, "<|video|>": 87}
        plain = write_tokenizer(folder, {"\n": 41}, [], special | dict(zip(named.values(), (IMAGE, 94, 95, 88, 89, 90))))
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", extra_special_tokens=named)
        processor = transformers.Gemma4Processor(
            feature_extractor=transformers.Gemma4AudioFeatureExtractor(), tokenizer=tokenizer,
            image_processor=transformers.Gemma4ImageProcessor.from_pretrained(folder),
            video_processor=transformers.Gemma4VideoProcessor())
        return chat_through(processor, TEMPLATE.replace("<start_of_image>", named["image_token"]), folder, images)


PADDED_FAMILIES = {"gemma4": Gemma4, "gemma4_clipped": Gemma4}
