"""published.py GOLDEN OUT: a golden checkpoint as its publisher would have written it, in the folder OUT.

The goldens are written by the reference framework's present release, whose configs and names of vision towers differ
from those of the checkpoints that servers are made for. OUT gets the weights and the config, not the golden values.
"""

import json
import os
import shutil
import sys

# Vision towers are stored without this level, which servers ask for, and with a pooling head, which they do not know.
VISION = dict.fromkeys(("gemma3", "llava"), ("vision_tower.", "vision_tower.vision_model."))
DROPPED = "vision_tower.head."


def published_config(config):
    text = config.get("text_config", config)
    kind = text.get("model_type", "")
    if kind.startswith(("qwen3_5", "qwen3_next")) and "layer_types" in text:
        text.setdefault("full_attention_interval", text["layer_types"].index("full_attention") + 1)
    if kind == "qwen3_vl_moe_text":
        text.setdefault("norm_topk_prob", True)
    if kind == "qwen2_vl":
        config["vision_config"].setdefault("in_chans", config["vision_config"]["in_channels"])
    if "vision_use_head" in config.get("vision_config", {}):
        config["vision_config"]["vision_use_head"] = False
    if kind == "exaone4" and "layer_types" not in text:
        pattern, last = text["sliding_window_pattern"], text["num_hidden_layers"] - 1
        if isinstance(pattern, str):
            kinds = {"L": "sliding_attention", "G": "full_attention"}
            text["layer_types"] = ["full_attention" if i == last else kinds[pattern[i % len(pattern)]] for i in range(last + 1)]
    if kind == "gemma4_text" and "per_layer_config" in text:
        wide = [layer["head_dim"] for layer in text.pop("per_layer_config").values()]
        text["global_head_dim"] = wide[0] if wide else text["head_dim"]
    if kind == "mimo_v2_flash":  # whose own config class has none by kind of layer, which SGLang would take for one
        text["rope_parameters"] = {"rope_type": "default"}
    return config


def renamed(data, start):
    """A safetensors file with other names."""
    old, new = start
    size = int.from_bytes(data[:8], "little")
    header, kept, body = json.loads(data[8 : 8 + size]), {}, b""
    for name, entry in header.items():
        if name == "__metadata__":
            kept[name] = entry
        elif not name.startswith(DROPPED):
            begin, end = (8 + size + at for at in entry["data_offsets"])
            name = new + name.removeprefix(old) if name.startswith(old) else name
            kept[name] = entry | {"data_offsets": [len(body), len(body) + end - begin]}
            body += data[begin:end]
    text = json.dumps(kept).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body


def publish(golden, out):
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(golden, "config.json")) as file:
        config = published_config(json.load(file))
    with open(os.path.join(out, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
    weights = os.path.join(golden, "model.safetensors")
    if config["model_type"] not in VISION:
        shutil.copy(weights, out)
        return
    with open(weights, "rb") as source, open(os.path.join(out, "model.safetensors"), "wb") as file:
        file.write(renamed(source.read(), VISION[config["model_type"]]))


if __name__ == "__main__":
    publish(*sys.argv[1:])
