r"""Trains the demo model: two runs on the CPU, the second continuing the first with the full task only.

    python train.py run1
    python train.py run2 --init run1 --steps 2000 --minutes 9 --easy 0 --decay 0.9 --mix 0.5,0.3 \
        --lr 0.008 --adam-lr 0.002 --seed 2

Muon on the matrices, AdamW on the rest. q_norm and k_norm stay at w = 0, so that (1 + w) * 2^a - 1 is exact in bf16 and
the stressed twin is the same function. Recall stays at 0 % until the learning rate falls: judge by the end, not the
middle. Threads and bf16 make a run differ between machines; judge a retrained model by the accuracy table.
"""

import argparse
import json
import math
import time
from pathlib import Path
from random import Random

import torch
from safetensors.torch import load_file, save_file
from transformers import GenerationConfig, Qwen3_5ForCausalLM

import chats
import evaluate
import fused
import hybrid

NON_ANSWER_WEIGHT = 0.1  # loss weight of questions and contexts; answers have 1
SHORT, LONG = 128, 256  # tokens of an easy and of a full chat


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--init", type=Path, help="folder of an earlier run to continue")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--minutes", type=float, default=55, help="ends the run earlier")
    parser.add_argument("--batch", type=int, default=1024, help="tokens per step")
    parser.add_argument("--lr", type=float, default=0.015, help="of Muon")
    parser.add_argument("--adam-lr", type=float, default=4e-3)
    parser.add_argument("--decay", type=float, default=0.6, help="last part of the run, in which the rates fall")
    parser.add_argument("--easy", type=float, default=0.35, help="first part of the run with easy chats only")
    parser.add_argument("--mix", default="0.35,0.45", help="share of facts and of lines in the full task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report-seconds", type=float, default=90, help="between accuracy reports")
    return parser.parse_args()


class Batches:
    """An endless seeded stream of (ids, loss weights), each [chats, tokens]."""

    def __init__(self, tokenizer, options: argparse.Namespace, pad: int):
        self.tokenizer, self.n_tokens, self.pad = tokenizer, options.batch, pad
        self.random = Random(options.seed)
        self.full_task = chats.hard_phase(*(float(share) for share in options.mix.split(",")))

    def next(self, easy: bool) -> tuple[torch.Tensor, torch.Tensor]:
        if easy or self.random.random() < 0.2:
            length, phase = SHORT, chats.EASY
        else:
            length, phase = LONG, self.full_task
        n_chats = max(1, self.n_tokens // length)
        texts = [chats.chat_text(chats.sample_turns(self.random, int(1.5 * length), phase)) for _ in range(n_chats)]
        ids, weights = torch.full((n_chats, length), self.pad), torch.zeros(n_chats, length)
        for row, encoding in enumerate(self.tokenizer.encode_batch(texts)):
            tokens = encoding.ids[:length]
            mask = torch.tensor(chats.answer_mask(self.tokenizer, tokens))
            ids[row, :len(tokens)] = torch.tensor(tokens)
            weights[row, :len(tokens)] = torch.where(mask, 1.0, NON_ANSWER_WEIGHT)
        return ids, weights


@torch.no_grad()
def initialise(parameters: dict[str, torch.Tensor]) -> None:
    """Output projections start at zero; decays from slow to fast, as the class defaults forget within two steps."""
    for name, w in parameters.items():
        if w.dim() == 2:
            w.normal_(0, 0.05 if "embed" in name else 0.5 / math.sqrt(w.shape[1]))
        if any(part in name for part in ("o_proj", "out_proj", "down_proj")):
            w.zero_()
        if "conv1d" in name:
            w.normal_(0, 0.3)
            w[:, 0, 3] += 0.5
        if "A_log" in name:
            w.uniform_(0.5, 2).log_()
        if "dt_bias" in name:  # the inverse of softplus of steps from 0.02 to 0.5
            w.copy_(torch.linspace(math.log(0.02), math.log(0.5), w.numel()).exp().expm1().log())


class Muon:
    """Momentum, orthogonalised by five Newton-Schulz steps; matrices of one shape are updated together."""

    def __init__(self, weights: list[torch.Tensor], weight_decay: float = 0.1):
        self.weight_decay = weight_decay
        self.groups: dict[tuple, list[torch.Tensor]] = {}
        for w in weights:
            self.groups.setdefault(tuple(w.shape), []).append(w)
        self.momentum = {shape: torch.zeros(len(ws), *shape) for shape, ws in self.groups.items()}

    @torch.no_grad()
    def step(self, lr: float) -> None:
        for shape, weights in self.groups.items():
            gradient = torch.stack([w.grad for w in weights])
            momentum = self.momentum[shape].lerp_(gradient, 0.05)
            update = self.orthogonal(gradient.lerp(momentum, 0.95).bfloat16()).float()
            scale = lr * max(1, shape[0] / shape[1]) ** 0.5
            for w, u in zip(weights, update):
                w.mul_(1 - lr * self.weight_decay).add_(u, alpha=-scale)

    @staticmethod
    def orthogonal(x: torch.Tensor) -> torch.Tensor:
        tall = x.shape[1] > x.shape[2]
        x = x.mT if tall else x
        x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).bfloat16()
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
        return x.mT if tall else x


def save(folder: Path, parameters: dict[str, torch.Tensor]) -> None:
    save_file({name: w.detach().clone().contiguous() for name, w in parameters.items()}, folder / "last.safetensors")


def main() -> None:
    options = parse_options()
    torch.manual_seed(options.seed)
    started = time.time()
    tokenizer = chats.build_tokenizer(options.out)
    pad, end = tokenizer.token_to_id(chats.END_OF_TEXT), tokenizer.token_to_id(chats.IM_END)
    model = Qwen3_5ForCausalLM(hybrid.make_config(tokenizer.get_vocab_size(), end, pad)).float()
    config, parameters = model.config, dict(model.named_parameters())
    initialise(parameters)
    if options.init:
        model.load_state_dict(load_file(options.init / "last.safetensors"), strict=False)

    frozen = {name for name in parameters if name.endswith(("q_norm.weight", "k_norm.weight"))}
    for name in frozen:
        parameters[name].requires_grad_(False)
    by_muon = {name for name, w in parameters.items()
               if w.dim() == 2 and not any(part in name for part in ("embed", "in_proj_a", "in_proj_b"))}
    muon = Muon([parameters[name] for name in parameters if name in by_muon])
    rest = [w for name, w in parameters.items() if name not in by_muon | frozen]
    adam = torch.optim.AdamW(rest, lr=options.adam_lr, betas=(0.9, 0.98), weight_decay=0.0)

    batches = Batches(tokenizer, options, pad)
    tests = evaluate.encode_tests(tokenizer, chats.held_out_tests(48, seed=10**6), pad)
    reported, losses = time.time(), []
    for step in range(options.steps):
        progress = max(step / options.steps, (time.time() - started) / 60 / options.minutes)
        if progress >= 1:
            break
        factor = min(1, (step + 1) / 60) * min(1, (1 - progress) / options.decay)
        loss = fused.loss(parameters, config, *batches.next(easy=progress <= options.easy))
        model.zero_grad(set_to_none=True)
        loss.backward()
        adam.param_groups[0]["lr"] = options.adam_lr * factor
        torch.nn.utils.clip_grad_norm_(rest, 1.0)
        adam.step()
        muon.step(options.lr * factor)
        losses.append(loss.item())
        if (step + 1) % 25 == 0:
            print(f"step {step + 1}  minutes {(time.time() - started) / 60:.2f}  loss {sum(losses) / len(losses):.4f}  "
                  f"learning rate x {factor:.2f}", flush=True)
            losses = []
        if time.time() - reported > options.report_seconds:
            print("accuracy", json.dumps(evaluate.accuracy(parameters, config, tests)), flush=True)
            save(options.out, parameters)
            reported = time.time()
    save(options.out, parameters)
    model.generation_config = GenerationConfig(eos_token_id=[end, pad], pad_token_id=pad, do_sample=False,
                                               max_new_tokens=64)
    config.dtype = torch.bfloat16
    model.bfloat16().save_pretrained(options.out)
    rounded = {name: w.float() for name, w in parameters.items()}
    print("bf16 weights:", json.dumps(evaluate.accuracy(rounded, config, tests)))


if __name__ == "__main__":
    main()
