"""Accuracy and KL divergence of a demo model with keys and values rounded to FP8 (E4M3, saturating) at many scales.

    python evaluate.py MODEL [--n 100] [--brief] [--json FILE]

An answer counts if greedy decoding would give it exactly, which one teacher-forced pass tells: every token of the
answer must be the argmax given the true prefix. Arithmetic is f32; KL is per answer token, in nats, against the model
with unrounded keys and values, the mean over the skills.
"""

import argparse
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import Qwen3_5ForCausalLM

import chats
import hybrid
from scales import FP8_MAX, scale_table

Tests = dict[str, tuple[torch.Tensor, torch.Tensor]]  # skill -> ids, answer mask; both [chats, tokens]


def encode_tests(tokenizer, tests: dict[str, list[chats.Turn]], pad: int) -> Tests:
    encoded = {}
    for skill, turns in tests.items():
        rows = [e.ids for e in tokenizer.encode_batch([chats.chat_text([turn]) for turn in turns])]
        length = -(-max(map(len, rows)) // hybrid.CHUNK) * hybrid.CHUNK
        ids, mask = torch.full((len(rows), length), pad), torch.zeros(len(rows), length, dtype=torch.bool)
        for i, row in enumerate(rows):
            ids[i, :len(row)] = torch.tensor(row)
            mask[i, :len(row)] = torch.tensor(chats.answer_mask(tokenizer, row))
        encoded[skill] = ids, mask
    return encoded


@torch.no_grad()
def answer_log_probs(parameters, config, ids, mask, quantise=None) -> torch.Tensor:
    """Log-probabilities at the positions that predict an answer token, [answer tokens of all chats, vocabulary]."""
    hidden = hybrid.forward(parameters, config, ids, quantise)[:, :-1][mask[:, 1:]]
    return F.log_softmax(F.linear(hidden, parameters["model.embed_tokens.weight"]), -1)


def share_exact(log_probs: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> float:
    """Share of chats whose whole answer is the argmax."""
    wrong = (log_probs.argmax(-1) != ids[:, 1:][mask[:, 1:]]).float()
    chat = torch.arange(len(ids))[:, None].expand(len(ids), ids.shape[1] - 1)[mask[:, 1:]]
    return 1 - (torch.zeros(len(ids)).index_add_(0, chat, wrong) > 0).float().mean().item()


def accuracy(parameters, config, tests: Tests) -> dict[str, float]:
    return {skill: share_exact(answer_log_probs(parameters, config, *test), *test) for skill, test in tests.items()}


def round_fp8(x: torch.Tensor, scale: float) -> torch.Tensor:
    return (x / scale).clamp(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn).to(x.dtype) * scale


class Absmax(dict):
    """A quantise hook that changes nothing and remembers layer -> (absmax of K, of V)."""

    def __call__(self, layer: int, k: torch.Tensor, v: torch.Tensor):
        old = self.get(layer, (0.0, 0.0))
        self[layer] = max(old[0], k.abs().max().item()), max(old[1], v.abs().max().item())
        return k, v


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--n", type=int, default=100, help="questions per skill (the multiplication table has 81)")
    parser.add_argument("--seed", type=int, default=7 * 10**6)
    parser.add_argument("--brief", action="store_true", help="the five most telling rows only")
    parser.add_argument("--json", type=Path, help="also write ranges and shares to this file")
    options = parser.parse_args()
    model = Qwen3_5ForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    config, parameters = model.config, dict(model.named_parameters())
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tests = encode_tests(tokenizer, chats.held_out_tests(options.n, options.seed), config.pad_token_id)

    with torch.no_grad():
        ids = tests["recall 8"][0][:4]
        theirs = model(ids).logits
        ours = F.linear(hybrid.forward(parameters, config, ids), parameters["model.embed_tokens.weight"])
    print(f"largest logit difference to the reference framework: {(theirs - ours).abs().max():.2g} "
          f"of {theirs.abs().max():.3g}")
    absmax = Absmax()
    exact = {skill: answer_log_probs(parameters, config, *test, absmax) for skill, test in tests.items()}
    for layer, (k, v) in absmax.items():
        print(f"absmax of layer {layer}: K {k:.4g}, V {v:.4g}")
    print("| KV cache |", " | ".join(tests), "| KL |\n|---|" + "---|" * (len(tests) + 1))
    table = {"absmax": absmax, "exact": {}}
    for label, scales in [("unquantised f32", None)] + scale_table(absmax, options.brief):
        def rounded(layer, k, v):
            return (k, v) if scales is None else (round_fp8(k, scales[layer][0]), round_fp8(v, scales[layer][1]))

        scores, divergences = [], []
        for skill, test in tests.items():
            found = answer_log_probs(parameters, config, *test, rounded)
            scores.append(share_exact(found, *test))
            divergences.append((exact[skill].exp() * (exact[skill] - found)).sum(-1).mean().item())
        print(f"| {label} |", " | ".join(f"{100 * score:.1f}" for score in scores),
              f"| {sum(divergences) / len(divergences):.2e} |", flush=True)
        table["exact"][label] = {skill: round(score, 4) for skill, score in zip(tests, scores)}
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
