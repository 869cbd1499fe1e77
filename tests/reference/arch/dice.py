"""Random but valid parts of configurations. Everything that is drawn follows from the seed."""

import random

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
MAX_POSITIONS = 512


class Dice(random.Random):
    def flag(self, p: float = 0.5) -> bool:
        return self.random() < p

    def some(self, p: float = 0.5, **choices) -> dict:
        """Each key with probability p, with one of its values: what is left out is the class's default."""
        return {key: self.choice(values) for key, values in choices.items() if self.flag(p)}

    def sizes(self, layers=(1, 6), head_dims=(8, 12, 16, 24), explicit=None, kv=True, eps="rms_norm_eps") -> dict:
        """Sizes of a decoder: from one key head to as many as queries have. `explicit`: whether head_dim is given, or
        hidden / heads; None: either."""
        heads = self.choice((1, 2, 3, 4, 6))
        explicit = self.flag() if explicit is None else explicit
        head_dim = self.choice(head_dims)
        out = dict(vocab_size=self.choice((96, 101, 128)), intermediate_size=self.choice((20, 37, 64, 90)),
                   num_hidden_layers=self.randint(*layers), num_attention_heads=heads,
                   hidden_size=heads * (self.choice((6, 10, 14)) if explicit else head_dim),
                   max_position_embeddings=MAX_POSITIONS, bos_token_id=None, eos_token_id=2, pad_token_id=None)
        if explicit:
            out["head_dim"] = head_dim
        if kv:
            out["num_key_value_heads"] = self.choice([n for n in range(1, heads + 1) if heads % n == 0])
        if eps:
            out[eps] = self.choice((1e-6, 1e-5, 1e-3, 0.02))
        return out

    def width(self, sizes: dict) -> int:
        return sizes.get("head_dim") or sizes["hidden_size"] // sizes["num_attention_heads"]

    def tied(self) -> dict:
        return self.some(0.7, tie_word_embeddings=(True, False))

    def layer_types(self, n: int, words=(SLIDING, FULL)) -> list[str]:
        return [self.choice(words) for _ in range(n)]

    def window(self) -> int:
        return self.choice((1, 2, 5, 8, 13, 20, 31))

    def rope(self, head_dim: int, types=("default", "linear", "dynamic", "llama3", "yarn"), share=None) -> dict:
        """rope_parameters; `share`: partial_rotary_factor, where a class has one."""
        out = dict(rope_type=self.choice(types), rope_theta=self.choice((1e3, 1e4, 5e5, 1e6)))
        if share is not None:
            out["partial_rotary_factor"] = share
        turned = int(head_dim * (share or 1))
        return dict(out, **getattr(self, "_" + out["rope_type"])(turned))

    def _default(self, _) -> dict:
        return {}

    def _linear(self, _) -> dict:
        return dict(factor=self.choice((1.0, 2.0, 4.0, 8)))

    _dynamic = _linear
    _proportional = _default

    def _llama3(self, _) -> dict:
        low = self.choice((1.0, 2.0))
        return dict(factor=self.choice((2.0, 8.0, 32.0)), low_freq_factor=low,
                    high_freq_factor=low * self.choice((2.0, 4.0)), original_max_position_embeddings=self.choice((16, 64)))

    def _yarn(self, _) -> dict:
        out = dict(factor=self.choice((2.0, 4.0, 16.0)),
                   **self.some(original_max_position_embeddings=(16, 64, 128), beta_fast=(32, 4.0), beta_slow=(1, 0.25),
                               truncate=(False, True)))
        kind = self.randrange(3)
        if kind == 1:
            out["attention_factor"] = self.choice((0.8, 1.25))
        if kind == 2:
            out.update(mscale=self.choice((0.7, 1.0)), mscale_all_dim=self.choice((0.5, 1.0)))
        return out

    def _longrope(self, turned: int) -> dict:
        """The sequences are longer than the shorter of both original lengths, and shorter than the other, which is the
        server's limit: so the reference takes the list that servers take."""
        lists = {key: [round(self.uniform(1, 8), 3) for _ in range(turned // 2)] for key in ("short_factor", "long_factor")}
        return dict(lists, original_max_position_embeddings=self.choice((4, MAX_POSITIONS)))

    def experts(self, n_key: str, k_key: str, width_key: str | None, most: int = 3) -> dict:
        n = self.randint(2, 8)
        out = {n_key: n, k_key: self.randint(1, min(most, n))}
        if width_key:
            out[width_key] = self.choice((12, 17, 24))
        return out

    def groups(self, n_experts_key: str, k_key: str) -> dict:
        """Experts in groups of at least two, with enough of them in the groups that are kept."""
        n_group = self.choice((1, 1, 2, 4))
        kept = self.randint(1, n_group)
        per_group = self.randint(2, 3)
        return {n_experts_key: n_group * per_group, k_key: self.randint(1, min(3, kept * per_group)),
                "n_group": n_group, "topk_group": kept}
