"""What the configs of make_config_layouts.py are made of."""

S, F, L = "sliding_attention", "full_attention", "linear_attention"


def sizes(vocab, hidden, ffn, layers, heads, kv=None, **more) -> dict:
    out = dict(vocab_size=vocab, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
               num_attention_heads=heads, **more)
    return out if kv is None else dict(out, num_key_value_heads=kv)


def model(architecture: str, model_type: str, *parts: dict, **more) -> dict:
    out = dict(architectures=[architecture], model_type=model_type)
    for part in parts:
        out.update(part)
    return dict(out, **more)


def run(first, last, kv, head_dim, window=0, rotary=None):
    """Caches of layers first..last: key-value heads, head width, window (0: none), rotary channels (0: no rope)."""
    return [first, last, kv, head_dim, window, head_dim if rotary is None else rotary]
