"""Tries export_embeddings.py from its command line on a tiny model of every class with a vision tower.

    python check_export.py [CASE...]

For each case of `pictures` a random model is saved with a tiny processor of its class (tokenizer, picture processor, chat
template); the command writes its prompt; the wrapper, fed with the ids and told to take the rows of that file in place of
its own tower's, gives the logits that it gives on the picture. Needs Pillow and torchvision beside requirements.txt.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, pre_tokenizers

from export_embeddings import processed
from golden_checkpoint import Draw, config_of, draw_all
from make_embedding_golden import Replaced, case_of, language_model_of
from pictures import END, IMAGE, PICTURED, START, Pictured, draw_tower, picture

HERE = Path(__file__).parent
VIDEO = 93


def tokenizer(p: Pictured, tokens: dict[str, int], **named):
    words = {f"w{i}": i for i in range(96) if i not in tokens.values()}
    plain = Tokenizer(models.WordLevel({**words, **tokens}, unk_token="w3"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="w0", extra_special_tokens=named or
                                                list(tokens))


def template(image: str) -> str:
    return ("{% for m in messages %}{% for c in m['content'] %}{% if c['type'] == 'image' %}" + image +
            "{% else %} {{ c['text'] }} {% endif %}{% endfor %}{% endfor %}")


def qwen(p: Pictured):
    three = p.case.startswith("qwen3")
    tokens = {"<|image_pad|>": IMAGE, "<|video_pad|>": VIDEO, "<|vision_start|>": START, "<|vision_end|>": END}
    size = dict(patch_size=4, merge_size=2, temporal_patch_size=2, size=dict(shortest_edge=64, longest_edge=4096))
    name = "Qwen3VL" if three else "Qwen2_5_VL" if p.case == "qwen2_5_vl" else "Qwen2VL"
    video = (transformers.Qwen3VLVideoProcessor if three else transformers.Qwen2VLVideoProcessor)(**size)
    return getattr(transformers, name + "Processor")(
        image_processor=transformers.Qwen2VLImageProcessor(**size), video_processor=video, tokenizer=tokenizer(p, tokens),
        chat_template=template("<|vision_start|><|image_pad|><|vision_end|>"))


def llava(p: Pictured):
    images = transformers.CLIPImageProcessor(size=dict(shortest_edge=16), crop_size=dict(height=16, width=16))
    return transformers.LlavaProcessor(
        image_processor=images, tokenizer=tokenizer(p, {"<image>": IMAGE}), patch_size=4,
        vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=template("<image>"))


def pixtral(p: Pictured):
    images = transformers.PixtralImageProcessor(size=dict(longest_edge=16), patch_size=dict(height=4, width=4))
    tokens = {"[IMG]": IMAGE, "[IMG_BREAK]": START, "[IMG_END]": END}
    return transformers.PixtralProcessor(image_processor=images, tokenizer=tokenizer(p, tokens), patch_size=4,
                                         spatial_merge_size=2, chat_template=template("[IMG]"))


def gemma3(p: Pictured):
    named = dict(image_token="<image_soft_token>", boi_token="<start_of_image>", eoi_token="<end_of_image>")
    tokens = dict(zip(named.values(), (IMAGE, START, END)))
    images = transformers.Gemma3ImageProcessor(size=dict(height=32, width=32))
    return transformers.Gemma3Processor(image_processor=images, tokenizer=tokenizer(p, tokens, **named), image_seq_length=16,
                                        chat_template=template("<start_of_image>"))


def gemma4(p: Pictured):
    named = dict(image_token="<|image|>", boi_token="<|image>", eoi_token="<image|>", audio_token="<|audio|>",
                 boa_token="<|audio>", eoa_token="<audio|>")
    tokens = dict(zip(named.values(), (IMAGE, START, END, 89, 90, 91)), **{"<|video|>": VIDEO})
    images = transformers.Gemma4ImageProcessor(patch_size=4, pooling_kernel_size=2, max_soft_tokens=70)
    return transformers.Gemma4Processor(
        feature_extractor=transformers.Gemma4AudioFeatureExtractor(), image_processor=images,
        video_processor=transformers.Gemma4VideoProcessor(), tokenizer=tokenizer(p, tokens, **named),
        chat_template=template("<|image|>"))


def llama4(p: Pictured):
    tokens = {"<|image|>": 88, "<|patch|>": IMAGE, "<|image_start|>": START, "<|image_end|>": END,
              "<|tile_x_separator|>": 89, "<|tile_y_separator|>": 90}
    images = transformers.Llama4ImageProcessor(size=dict(height=32, width=32), max_patches=2)
    return transformers.Llama4Processor(image_processor=images, tokenizer=tokenizer(p, tokens), patch_size=8,
                                        pixel_shuffle_ratio=0.5, chat_template=template("<|image|>"))


def lfm2(p: Pictured):
    tokens = {"<image>": IMAGE, "<|image_start|>": START, "<|image_end|>": END, "<|img_thumbnail|>": 91}
    images = transformers.Lfm2VlImageProcessor(encoder_patch_size=4, min_image_tokens=1, max_image_tokens=4, tile_size=16,
                                               max_num_patches=16, do_image_splitting=False)
    return transformers.Lfm2VlProcessor(image_processor=images, tokenizer=tokenizer(p, tokens),
                                        chat_template=template("<image>"))


def kimi(p: Pictured):
    tokens = {"<|media_pad|>": IMAGE, "<|kimi_k25_video_placeholder|>": VIDEO}
    size = dict(patch_size=4, merge_size=2)
    return transformers.Kimi_K25Processor(
        image_processor=transformers.Kimi_K25ImageProcessor(**size), tokenizer=tokenizer(p, tokens),
        video_processor=transformers.Kimi_K25VideoProcessor(**size), chat_template=template("<|media_pad|>"))


def muse(p: Pictured):
    tokens = {"<|patch|>": IMAGE, "<|video|>": VIDEO, "<|image_start|>": START, "<|image_end|>": END}
    size = dict(patch_size=4, merge_size=2, temporal_patch_size=2)
    return transformers.MuseGlimmerProcessor(
        image_processor=transformers.MuseGlimmerImageProcessor(**size), tokenizer=tokenizer(p, tokens),
        video_processor=transformers.MuseGlimmerVideoProcessor(**size), chat_template=template("<|patch|>"))


PROCESSORS = {"llava": llava, "mistral3": pixtral, "mistral3_ministral3": pixtral, "gemma3_vl": gemma3, "gemma4_vl": gemma4,
              "llama4_vl": llama4, "lfm2_vl": lfm2, "deepseek_v3_vl": kimi, "muse_glimmer": muse}


def save_model(p: Pictured, folder: Path) -> None:
    case = case_of(p)
    if p.wrapper:
        text = dict(config_of(case).to_dict(), model_type=p.model_type, **p.text)
        config = getattr(transformers, p.wrapper).config_class(text_config=text, vision_config=p.tower, **p.more)
        model = getattr(transformers, p.wrapper)(config)
    else:
        model = getattr(transformers, case.model)(config_of(case))
    draw_all(case, model, 1)
    draw_tower(model, 1, Draw)
    model.to(torch.bfloat16).save_pretrained(folder)
    PROCESSORS.get(p.name, qwen)(p).save_pretrained(folder)


def logits(model, inputs: dict) -> torch.Tensor:
    return model(**inputs, use_cache=False).logits[0, -1].float()


def check(p: Pictured, folder: Path) -> str:
    """What is wrong, or nothing."""
    save_model(p, folder)
    image = folder / "picture.png"
    pixels = ((picture(32, 32, 0.0) + 1) * 127.5).byte().permute(1, 2, 0)
    Image.fromarray(pixels.numpy()).save(image)
    command = [sys.executable, HERE / "export_embeddings.py", folder, "--image", image, "--text", "w5 w6 w7", "--out",
               folder / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    prompt = json.loads((folder / "out/prompts.jsonl").read_text())
    rows = load_file(folder / "out" / prompt["embeddings"])
    placed = torch.tensor(prompt["input_ids"]) == IMAGE
    if placed.sum() != len(rows["embeddings"]) or rows["positions"].shape[1] != len(prompt["input_ids"]):
        return f"{int(placed.sum())} placeholders, {list(rows['embeddings'].shape)} rows, {list(rows['positions'].shape)} positions"
    model, inputs = processed(folder, image, "w5 w6 w7")
    whole = logits(model, inputs)
    language_model = language_model_of(model)
    empty = {k: torch.zeros_like(x) if k == "pixel_values" else x for k, x in inputs.items()}
    with Replaced(language_model, rows, placed):
        given = logits(model, empty)
    if not torch.equal(given, whole):
        return f"other logits: {(given - whole).norm() / whole.norm():.2g}"
    if torch.equal(logits(model, empty), whole):
        return "the picture is not felt"
    return ""


@torch.no_grad()
def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to try (default: all)")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    wrong = 0
    for p in PICTURED:
        if options.cases and p.name not in options.cases:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            problem = check(p, Path(scratch))
        print(f"{p.name}: {problem or 'ok'}", flush=True)
        wrong += bool(problem)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
