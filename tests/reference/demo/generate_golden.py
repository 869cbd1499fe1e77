"""What the reference framework answers with the demo models: writes tests/arch/golden/demo_generate.json.

    python generate_golden.py [--demo FOLDER] [--out FILE]

Greedy decoding of questions.jsonl by Qwen3_5ForCausalLM, in f32 and in bf16. Refuses a question whose answer differs
between the two, or whose two best logits come within MIN_MARGIN at any step: token-for-token equality with another
implementation would not be a fair test there. Format: tests/arch/golden/README.md.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from transformers import AttentionInterface, AttentionMaskInterface, AutoTokenizer, Qwen3_5ForCausalLM
from transformers.masking_utils import eager_mask
from transformers.models.qwen3_5.modeling_qwen3_5 import eager_attention_forward

REFERENCE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REFERENCE))
from json_lines import write_json  # noqa: E402

MODELS = ("natural", "stressed")
MAX_NEW_TOKENS = 48
MIN_MARGIN = 0.5


class AbsmaxAttention:
    """Eager attention that remembers the largest |K| and |V| of every layer."""

    def __init__(self):
        self.absmax: dict[str, dict[str, float]] = {}

    def __call__(self, module, query, key, value, attention_mask, **kwargs):
        site = self.absmax.setdefault(str(module.layer_idx), {"key": 0.0, "value": 0.0})
        for name, x in (("key", key), ("value", value)):
            site[name] = max(site[name], x.float().abs().max().item())
        return eager_attention_forward(module, query, key, value, attention_mask, **kwargs)


def answer(model, ids: list[int]) -> tuple[list[int], torch.Tensor]:
    """Output ids and the logits [steps, vocabulary] they were chosen from."""
    out = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False,
                         max_new_tokens=MAX_NEW_TOKENS, output_logits=True, return_dict_in_generate=True)
    return out.sequences[0, len(ids):].tolist(), torch.cat(out.logits).float()


def answers(folder: Path, prompts: list[dict], tokenizer) -> tuple[list[dict], dict]:
    attention = AbsmaxAttention()
    AttentionInterface.register("golden", attention)
    AttentionMaskInterface.register("golden", eager_mask)
    exact = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="golden")
    rounded = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    found = []
    for prompt in prompts:
        output_ids, logits = answer(exact, prompt["input_ids"])
        best = logits.topk(2).values
        margin = (best[:, 0] - best[:, 1]).min().item()
        if margin <= MIN_MARGIN:
            raise SystemExit(f"{folder.name}: {prompt['id']}: margin {margin:.2f} is too small for a fair test")
        if answer(rounded, prompt["input_ids"])[0] != output_ids:
            raise SystemExit(f"{folder.name}: {prompt['id']}: bf16 and f32 answer differently")
        top = logits[0].topk(5)
        found.append({"output_ids": output_ids, "text": tokenizer.decode(output_ids, skip_special_tokens=True),
                      "top": [[i, x] for i, x in zip(top.indices.tolist(), top.values.tolist())], "margin": margin})
    return found, attention.absmax


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, default=REFERENCE.parents[1] / "datasets" / "demo")
    parser.add_argument("--out", type=Path, default=REFERENCE.parent / "arch" / "golden" / "demo_generate.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(options.demo / "natural")
    prompts = []
    for line in (options.demo / "questions.jsonl").read_text().splitlines():
        question = json.loads(line)
        text = tokenizer.apply_chat_template(question["messages"], tokenize=False, add_generation_prompt=True)
        prompts.append({"id": question["id"], "text": text,
                        "input_ids": tokenizer(text, add_special_tokens=False).input_ids})
    results = {name: answers(options.demo / name, prompts, tokenizer) for name in MODELS}
    write_json(options.out, {
        "made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__, "max_new_tokens": MAX_NEW_TOKENS, "prompts": prompts,
        "models": {name: found for name, (found, _) in results.items()},
        "absmax": {name: absmax for name, (_, absmax) in results.items()}})
    for prompt, found in zip(prompts, results["natural"][0]):
        print(f"{prompt['id']:12s} margin {found['margin']:6.2f}  {found['text']}")
    print(*(f"{name}: absmax {absmax}" for name, (_, absmax) in results.items()), sep="\n")


if __name__ == "__main__":
    main()
