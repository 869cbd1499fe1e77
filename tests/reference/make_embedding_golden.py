"""Makes tests/arch/embeddings: the tiny models of tests/arch/golden with two pictures in their prompts.

    python make_embedding_golden.py [CASE...] [--check]

Pictures go through the reference framework's own tower (its weights are drawn here and not kept: a run needs what the
tower returns, not the tower), export_embeddings.py writes what comes out, and the reference runs the whole model; in bf16
on the rows of the f32 tower, which are what the prompt brings. golden.json: absmax per layer, site and head in f32 and
bf16, and how the f32 model continues the prompt; golden.safetensors: Q, K, V of every layer that owns a cache,
last-position logits. Where the weights are those of a text class, config.json wraps it.
"""

import argparse
import dataclasses
import json
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
from export_embeddings import encoder_rows, language_model_of, write_prompt
from golden_checkpoint import Draw, write_checkpoint
from json_lines import write_json
from make_arch_goldens import GOLDEN, PRECISIONS, Capture, NarrowestChoice, load
from pictures import IMAGE, PICTURED, Pictured, draw_tower, token_ids

FOLDER = GOLDEN.parent / "embeddings"
TRIES = 6  # draws of tower and text to choose from: with routers where their narrowest choice is widest, else where
# bf16 arithmetic moves Q, K and V least
NEW_TOKENS = 6
MAX_MOVEMENT = 0.013  # relative RMS of any Q, K or V by bf16; tests allow 0.02
MIN_MARGIN = 0.01  # of a generated token's logit over the next


class CaptureOnce(Capture):
    """Records between start() and stop(); a run with a cache hands over the rows of earlier tokens too."""

    recording = False

    def start(self):
        super().start()
        self.recording = True

    def stop(self):
        self.recording = False

    def __call__(self, module, *args, **kwargs):
        if self.recording:
            return super().__call__(module, *args, **kwargs)
        return sys.modules[type(module).__module__].eager_attention_forward(module, *args, **kwargs)


CAPTURE = CaptureOnce()
AttentionInterface.register("golden", CAPTURE)
AttentionMaskInterface.register("golden", eager_mask)


def case_of(p: Pictured):
    case = next(c for c in CASES if c.name == p.case)
    tower = dict(vision_config=p.tower) if p.tower and not p.wrapper else {}
    return dataclasses.replace(case, config=dict(case.config, **tower, **({} if p.wrapper else p.more)))


def text_model(p: Pictured, folder: Path, precision: str):
    """The case's model; where a tower of another size is wanted, its weights are written again around that tower."""
    if not p.tower or p.wrapper:
        return load(case_of(p), GOLDEN / p.case, precision)
    if not (folder / "model.safetensors").exists():
        seed = json.loads((GOLDEN / p.case / "golden.json").read_text())["seed"]
        folder.mkdir(parents=True, exist_ok=True)
        write_checkpoint(dataclasses.replace(case_of(p), published=None), folder, seed)
    return load(case_of(p), folder, precision)


def wrapped(p: Pictured, text):
    """The wrapper around a text model: with its modules in place of the wrapper's own."""
    wrapper = getattr(transformers, p.wrapper)
    inner = dict(text.config.to_dict(), model_type=p.model_type, **p.text)
    config = wrapper.config_class(text_config=inner, vision_config=p.tower, **p.more)
    config.tie_word_embeddings = text.config.tie_word_embeddings
    config.text_config._attn_implementation = "golden"
    model = wrapper._from_config(config, dtype=text.dtype, attn_implementation={"text_config": "golden", "vision_config": "eager"})
    if hasattr(model, "language_model"):
        model.language_model = text
    else:
        model.model.language_model, model.lm_head = text.get_decoder(), text.get_output_embeddings()
    return model.eval()


def config_around(p: Pictured, of_wrapper: dict) -> dict:
    """The wrapper's config around that of the text class as it lies in its folder."""
    text = json.loads((GOLDEN / p.case / "config.json").read_text())
    return {"architectures": [p.wrapper.replace("_", "")], "model_type": of_wrapper["model_type"],
            "tie_word_embeddings": text.get("tie_word_embeddings", of_wrapper["tie_word_embeddings"]),
            **{p.published.get(key, key): value for key, value in p.more.items()},
            "text_config": dict(text, model_type=p.model_type, **p.text), "vision_config": p.tower}


def model_of(p: Pictured, folder: Path, precision: str, seed: int):
    text = text_model(p, folder, precision)
    model = wrapped(p, text) if p.wrapper else text
    draw_tower(model, seed, Draw)
    for name, module in model.named_modules():
        if name.endswith(("visual", "vision_tower", "vision_model")) and hasattr(module, "set_attn_implementation"):
            module.set_attn_implementation("eager")
    return model


def inputs_of(p: Pictured, model, seed: int) -> dict:
    inputs, counts = p.inputs(model.config.vision_config)
    pixels = {k: x.to(model.dtype) if x.is_floating_point() else x for k, x in inputs.items()}
    ids = torch.tensor([token_ids(counts, seed)])
    return {"input_ids": ids, **({p.types: (ids == IMAGE).long()} if p.types else {}), **pixels}


class Replaced:
    """While it is entered: the language model gets these rows instead of those of its own tower."""

    def __init__(self, language_model, rows: dict, placed: torch.Tensor):
        self.language_model, self.rows, self.placed = language_model, rows, placed

    def __enter__(self):
        def replace(module, args, kwargs):
            embeds = kwargs["inputs_embeds"].clone()
            embeds[0, self.placed] = self.rows["embeddings"].to(embeds.dtype)
            kwargs["inputs_embeds"] = embeds
            for i, stream in enumerate(kwargs.get("deepstack_visual_embeds") or []):
                stream.copy_(self.rows[f"deepstack.{i}"])
            return args, kwargs

        self.hook = self.language_model.register_forward_pre_hook(replace, with_kwargs=True)

    def __exit__(self, *_):
        self.hook.remove()


def tensors_of(precision: str, model, forward) -> dict:
    """Q, K, V of every layer and the last logits."""
    hooks = [layer.register_forward_pre_hook(lambda m, args, i=i: setattr(CAPTURE, "layer", i))
             for i, layer in enumerate(layers_of(model))]
    CAPTURE.start()
    logits = forward()
    CAPTURE.stop()
    tensors = {f"{precision}.{site}.{layer}": x for layer, sites in CAPTURE.sites.items() for site, x in sites.items()}
    for hook in hooks:
        hook.remove()
    return {k: v.detach().clone().contiguous() for k, v in {**tensors, f"{precision}.logits": logits}.items()}


@dataclasses.dataclass
class Attempt:
    seed: int
    ids: list[int]
    rows: dict
    tensors: dict
    output_ids: list[int]
    margin: float  # the smallest of the best logit over the next while generating
    choice: float  # how narrow a router chose in f32, relative to the last value chosen; infinite without routers
    config: dict

    def sites(self):
        return [k.removeprefix("f32.") for k, x in self.tensors.items() if k.startswith("f32.") and x.ndim == 3]

    @property
    def moved(self) -> float:
        """The largest relative RMS change of any Q, K or V by bf16."""
        return max(((self.tensors["bf16." + k].float() - self.tensors["f32." + k]).norm() /
                    self.tensors["f32." + k].norm()).item() for k in self.sites())


def layers_of(model):
    decoder = model.get_decoder()
    return decoder.layers if hasattr(decoder, "layers") else decoder.model.layers


def generate(model, inputs: dict) -> tuple[list[int], float]:
    settings = dict(max_new_tokens=NEW_TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0)
    out = model.generate(**inputs, **settings, output_logits=True, return_dict_in_generate=True)
    best = [x[0].topk(2).values for x in out.logits]
    return out.sequences[0, inputs["input_ids"].shape[1]:].tolist(), min((b[0] - b[1]).item() for b in best)


def attempt(p: Pictured, folder: Path, seed: int) -> Attempt:
    rows, tensors, result = {}, {}, {}
    for precision in PRECISIONS:
        model = model_of(p, folder, precision, seed)
        inputs = inputs_of(p, model, seed)
        placed = inputs["input_ids"][0] == IMAGE
        if not rows:
            rows = encoder_rows(model, dict(inputs))
        def forward():
            with Replaced(language_model_of(model), rows, placed):
                return model(**inputs, use_cache=False).logits[0, -1]

        with NarrowestChoice() as choice:
            tensors |= tensors_of(precision, model, forward)
        if precision == "f32":
            result = dict(zip(("output_ids", "margin"), generate(model, dict(inputs))), config=model.config.to_dict(),
                          choice=choice.gap)
    return Attempt(seed, inputs["input_ids"][0].tolist(), rows, tensors, **result)


@torch.no_grad()
def make(p: Pictured, folder: Path, seed: int | None, tries: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        attempts = [attempt(p, Path(scratch) / "model", s) for s in ([seed] if seed else range(1, tries + 1))]
    clear = [a for a in attempts if (a.margin > MIN_MARGIN and a.moved < MAX_MOVEMENT) or seed]
    if not clear:
        raise RuntimeError(f"{p.name}: no draw whose continuation is clear and that bf16 hardly moves")
    best = min(clear, key=lambda a: (-a.choice, a.moved))
    shutil.rmtree(folder, ignore_errors=True)
    write_prompt(folder, "picture", best.ids, best.rows)
    save_file(best.tensors, folder / "golden.safetensors")
    absmax = {precision: {k: best.tensors[f"{precision}.{k}"].float().abs().amax(dim=(0, 2)).tolist() for k in best.sites()}
              for precision in PRECISIONS}
    write_json(folder / "golden.json", {
        "made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__, "model": f"tests/arch/golden/{p.case}", "seed": best.seed,
        "rms_moved_by_bf16": best.moved, "output_ids": best.output_ids, "absmax": absmax})
    if p.wrapper:
        write_json(folder / "config.json", config_around(p, best.config))
    print(f"{p.name}: {len(best.ids)} tokens, {len(best.rows['embeddings'])} of pictures, bf16 moves Q, K, V by "
          f"{100 * best.moved:.2f} %, deepstack {sum(k.startswith('deepstack') for k in best.rows)}, margin "
          f"{best.margin:.2f}", flush=True)


def compare(p: Pictured, scratch: Path) -> list[str]:
    committed = FOLDER / p.name
    make(p, scratch, json.loads((committed / "golden.json").read_text())["seed"], 1)
    different = []
    for file in ("golden.safetensors", "picture.safetensors"):
        old, new = (load_file(f / file) for f in (committed, scratch))
        if old.keys() != new.keys():
            different.append(f"{p.name}: {file} has other tensors")
        different += [f"{p.name}: {k}" for k in old.keys() & new.keys()
                      if (old[k].float() - new[k].float()).abs().max() > 3e-2 * old[k].float().abs().max()]
    return different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to make (default: all)")
    parser.add_argument("--check", action="store_true", help="make again elsewhere and compare")
    parser.add_argument("--tries", type=int, default=TRIES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    different = []
    for p in PICTURED:
        if options.cases and p.name not in options.cases:
            continue
        if not options.check:
            make(p, FOLDER / p.name, None, options.tries)
            continue
        with tempfile.TemporaryDirectory() as scratch:
            different += compare(p, Path(scratch) / p.name)
    print(*different, sep="\n", end="\n" if different else "")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
