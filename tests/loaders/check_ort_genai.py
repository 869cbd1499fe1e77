"""Does onnxruntime-genai's model builder take the scales of an export? Its own function, taken from its source, without ONNX:

    pip download --no-deps onnxruntime-genai==0.18.0 && unzip onnxruntime_genai-0.18.0*.whl -d genai
    python3 tests/loaders/check_ort_genai.py FILE --expect FILE.expect.json --config MODEL/config.json --source genai

Exit status: 0, the initializers of every layer with a cache are exactly the expected scales; 1, one is not, or the file is refused.
"""
import argparse
import json
import os
import types
from pathlib import Path

import numpy as np

from own_functions import constant, functions


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--expect", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True)
    args = parser.parse_args()
    models = args.source / "onnxruntime_genai/models"
    expected = json.load(open(args.expect))["layers"]
    config = json.load(open(args.config))
    # What the builder's option would be: by the number of scales, and by what the file says it was divided by.
    per_channel = len(next(iter(expected.values()))["k"]) > 1
    kind = "int8" if json.load(open(args.file))["qmax"] == 128 else "fp8"
    head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    made = functions(
        models / "builders/base.py",
        ["Model.make_kv_cache_scale_initializers", "Model.get_kv_cache_scale_names",
         "Model.get_kv_cache_calibration_factor"],
        {"np": np, "json": json, "os": os,
         "KV_CACHE_CALIBRATION_QMAX": constant(models / "quantization/quant_config.py", "KV_CACHE_CALIBRATION_QMAX")})
    found = {}
    builder = types.SimpleNamespace(
        kv_cache_attrs={"quant_mode": "PER_CHANNEL" if per_channel else "PER_TENSOR",
                        "quant_scheme": f"{kind}_per_{'channel' if per_channel else 'tensor'}",
                        "scales_path": str(args.file)},
        num_kv_heads=config["num_key_value_heads"], head_size=head_size, num_layers=config["num_hidden_layers"],
        use_paged_attention=per_channel, input_names={"past_key_values.key": {int(layer): "" for layer in expected}},
        make_initializer=lambda values, name: found.update({name: values}))
    for name, function in made.items():
        setattr(builder, name.split(".")[1], types.MethodType(function, builder))
    builder.make_kv_cache_scale_initializers()
    assert len(found) == 2 * len(expected), sorted(found)
    for layer, sites in expected.items():
        for site in "kv":
            values = found[f"model.layers.{layer}.attn.{site}_scale"]
            want = np.array(sites[site], dtype=np.float32)
            assert values.dtype == np.float32 and np.array_equal(values.reshape(-1), want), f"layer {layer} {site}"
    print(f"{len(expected)} layers: {len(want)} scales each for keys and values, as expected")


if __name__ == "__main__":
    main()
