"""How far right computations of the model without any rounding of its cache are apart, against `kvcal evaluate --floor`.

    floor.py KVCAL FOLDER [TOKENS]

In plain numpy: in bfloat16 as servers round; the same in float32; and in bfloat16 with sums in another order. Fails where kvcal's floor is
not of their order, or where scale 1.0 in FP8 is not above it.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
from llama import Llama, rms_norm
from text import chats

ORDER = 3  # kvcal's floor and numpy's may differ by this factor


def rounded(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


class Rounded(Llama):
    """Activations in bfloat16. halves: products with weights are summed in two halves. grid: of probabilities, in nats."""

    def __init__(self, of, halves=False, grid=0.0):
        self.__dict__.update(of.__dict__)
        self.halves, self.grid = halves, np.float32(grid)

    def times(self, x, layer, name):
        w, cut = self.of(layer, name), x.shape[-1] // 2 if self.halves else 0
        return rounded(x[:, :cut] @ w[:, :cut].T + x[:, cut:] @ w[:, cut:].T if cut else x @ w.T)

    def norm(self, x, gain):
        return rounded(rounded(rms_norm(x, np.float32(1), self.eps)) * gain)

    def qkv(self, layer, x, spans):
        h = self.norm(x, self.of(layer, "input_layernorm"))
        q, k, v = (self.times(h, layer, f"self_attn.{n}_proj").reshape(len(x), -1, self.dim) for n in "qkv")
        positions = np.concatenate([np.arange(b - a) for a, b in spans])
        return rounded(self.turn(q, positions)), rounded(self.turn(k, positions)), v

    def attend(self, q, k, v, spans):
        out, group = np.empty_like(q), self.heads // self.kv_heads
        for a, b in spans:
            mask = np.triu(np.full((b - a, b - a), -np.inf, np.float32), 1)
            for h in range(self.heads):
                s = q[a:b, h] @ k[a:b, h // group].T * np.float32(self.dim ** -.5) + mask
                p = np.exp(s - s.max(-1, keepdims=True) + self.grid)
                out[a:b, h] = rounded(rounded(p) @ v[a:b, h // group] / p.sum(-1, keepdims=True))
        return out

    def project(self, layer, heads):
        return self.times(heads.reshape(len(heads), -1), layer, "self_attn.o_proj")

    def feed_forward(self, layer, x):
        h = self.norm(x, self.of(layer, "post_attention_layernorm"))
        gate, up = self.times(h, layer, "mlp.gate_proj"), self.times(h, layer, "mlp.up_proj")
        return rounded(x + self.times(rounded(rounded(gate / (1 + np.exp(-gate))) * up), layer, "mlp.down_proj"))

    def layer(self, layer, x, spans, cached=None):
        q, k, v = self.qkv(layer, x, spans)
        if cached:
            k, v = cached(k, v)
        return self.feed_forward(layer, rounded(x + self.project(layer, self.attend(q, k, v, spans))))

    def logits(self, x):
        return rounded(self.norm(x, self.w["model.norm.weight"]) @ self.w["model.embed_tokens.weight"].T)


def predicted(model, ids, cached=None):
    ends = np.cumsum([len(i) for i in ids])
    spans = [(int(b) - len(i), int(b)) for i, b in zip(ids, ends)]
    x = model.embed(np.concatenate(ids))
    for layer in range(model.n_layers):
        x = model.layer(layer, x, spans, cached)
    logits = model.logits(x).astype(np.float64)
    return logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True)) - logits.max(-1, keepdims=True)


def in_fp8(k, v):
    return tuple(x.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) for x in (k, v))


def main():
    kvcal, folder, wanted = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1600
    ids = chats(folder, wanted, 100)
    wide = Llama(folder)
    reference = predicted(Rounded(wide), ids)

    def kl(what, log):
        tokens = (np.exp(reference) * (reference - log)).sum(-1)
        same = (reference.argmax(-1) == log.argmax(-1)).mean()
        print(f"numpy, {what}: KL {tokens.mean():.3g}, same top token {100 * same:.1f} %", flush=True)
        return tokens.mean()

    floors = [kl("bf16 against f32", predicted(wide, ids)),
              kl("weights' products summed in halves", predicted(Rounded(wide, halves=True), ids)),
              kl("probabilities on another grid", predicted(Rounded(wide, grid=.3), ids))]
    fp8 = kl("E4M3 at 1.0", predicted(Rounded(wide), ids, in_fp8))
    with tempfile.TemporaryDirectory() as scratch:
        prompts, out = Path(scratch, "ids.jsonl"), Path(scratch, "evaluation.json")
        prompts.write_text("".join(json.dumps({"id": f"{i:03}", "input_ids": x}) + "\n" for i, x in enumerate(ids)))
        subprocess.run([kvcal, "evaluate", folder, "--prompts", prompts, "--floor", "--quiet", "--out", out], check=True)
        found = json.loads(out.read_text())
    of = {v["name"]: v for v in found["variants"]}
    ours, times = of["floor"]["kl"]["mean"], found["conclusion"]["times_floor"]["scale_1.0"]
    print(f"kvcal: floor {ours:.3g}, same top token {100 * of['floor']['top1']:.1f} %; scale 1.0 {of['scale_1.0']['kl']['mean']:.3g}, "
          f"{times['value']:.3g} times the floor ({times['interval'][0]:.3g} to {times['interval'][1]:.3g})")
    if not all(floor / ORDER < ours < floor * ORDER for floor in floors):
        sys.exit("the floors are not of the same order")
    if not (times["interval"][0] > 1 and fp8 > max(floors)):
        sys.exit("scale 1.0 is not above the floor")


if __name__ == "__main__":
    main()
