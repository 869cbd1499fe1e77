"""Writes what a vision-language model makes of images, for prompts of `kvcal calibrate`.

    python export_embeddings.py MODEL --image FILE --text "What is this?" --out FOLDER [--name NAME]

runs the reference framework's processor and its own vision tower and writes FOLDER/NAME.safetensors (tensors `embeddings`,
`positions` and, where the model has deepstack, `deepstack.0` ...) and a line for FOLDER/prompts.jsonl:
{"id", "input_ids", "embeddings"}. Needs the processor's own packages (Pillow, torchvision).
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file


class Enough(Exception):
    """The language model has been called: what it was given is all that is wanted."""


def placeholder_ids(config) -> list[int]:
    names = ("image_token_id", "image_token_index", "video_token_id")
    return [getattr(config, name) for name in names if getattr(config, name, None) is not None]


def language_model_of(model):
    return getattr(model, "model", model).language_model


@torch.no_grad()
def encoder_rows(model, inputs: dict) -> dict[str, torch.Tensor]:
    """The tensors of one prompt, as the language model inside receives them."""
    given = {}

    def stop(module, args, kwargs):
        given.update(kwargs)
        raise Enough

    hook = language_model_of(model).register_forward_pre_hook(stop, with_kwargs=True)
    try:
        model(**inputs, use_cache=False)
    except Enough:
        pass
    finally:
        hook.remove()
    ids = inputs["input_ids"][0]
    placed = torch.isin(ids, torch.tensor(placeholder_ids(model.config)))
    positions = given.get("position_ids")
    if positions is None:
        positions = torch.arange(len(ids)).view(1, 1, -1)
    if positions.ndim == 2:
        positions = positions[None]
    if positions.shape[0] == 4:  # a row for text in front
        positions = positions[1:]
    rows = {"embeddings": given["inputs_embeds"][0, placed], "positions": positions[:, 0].to(torch.int32)}
    for i, stream in enumerate(given.get("deepstack_visual_embeds") or []):
        rows[f"deepstack.{i}"] = stream
    return {name: t.detach().clone().contiguous() for name, t in rows.items()}


def write_prompt(folder: Path, name: str, ids: list[int], rows: dict[str, torch.Tensor]) -> None:
    """One file of tensors, and one more line of prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(rows, folder / f"{name}.safetensors")
    with (folder / "prompts.jsonl").open("a") as lines:
        lines.write(json.dumps({"id": name, "input_ids": ids, "embeddings": f"{name}.safetensors"}) + "\n")


def processed(folder, image, text: str):
    """The model in bf16, and what its processor makes of a question about a picture."""
    from transformers import AutoModelForImageTextToText, AutoProcessor
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.bfloat16).eval()
    chat = [{"role": "user", "content": [{"type": "image", "path": str(image)}, {"type": "text", "text": text}]}]
    inputs = processor.apply_chat_template(chat, tokenize=True, return_dict=True, return_tensors="pt",
                                           add_generation_prompt=True)
    return model, {k: x.to(model.dtype) if x.is_floating_point() else x for k, x in inputs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--image", required=True, help="a picture's file")
    parser.add_argument("--text", required=True, help="the question about it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--name", help="of the prompt (default: the picture's)")
    options = parser.parse_args()
    model, inputs = processed(options.model, options.image, options.text)
    write_prompt(options.out, options.name or Path(options.image).stem, inputs["input_ids"][0].tolist(),
                 encoder_rows(model, inputs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
