"""What the module of an installed wheel promises; the environment's python runs it. Nothing else need be installed."""

import json
import pathlib
import subprocess
import sys
import tempfile
from importlib.metadata import distribution

import kvcal

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEMO = SOURCE / "datasets" / "demo"

assert pathlib.Path(kvcal.__file__).is_relative_to(sys.prefix), kvcal.__file__
version = kvcal.run("--version").stdout
assert version.startswith(f"kvcal {kvcal.__version__} ("), version
assert (pathlib.Path(kvcal.__file__).parent / "py.typed").exists()

with tempfile.TemporaryDirectory() as folder:
    scales = pathlib.Path(folder, "scales.json")
    made = kvcal.calibrate(DEMO / "natural", prompts=DEMO / "prompts.jsonl", quiet=True, out=scales)
    assert made.to_dict() == json.loads(scales.read_text()), made
    loaded = kvcal.load_scales(scales)
    written = json.loads(scales.read_text())["layers"]
    assert [layer["index"] for layer in written] == list(loaded.layers) == [3, 7], loaded.layers
    for layer in written:
        assert loaded.layers[layer["index"]].scale["k"] == layer["key"]["scale"]
    scales.write_text(scales.read_text()[:-20])
    try:
        kvcal.load_scales(scales)
        raise AssertionError("a truncated file was read")
    except kvcal.ScaleError as error:
        assert "no valid kv-cache-scales.json" in str(error), error
    try:
        kvcal.run("validate", scales)
        raise AssertionError("no error for a truncated file")
    except subprocess.CalledProcessError as error:
        assert error.returncode in (1, 2), error

# What shells, man and readers look for below an environment, as below /usr.
share = pathlib.Path(sys.prefix, "share")
for name in ("bash-completion/completions/kvcal", "zsh/site-functions/_kvcal", "fish/vendor_completions.d/kvcal.fish",
             "man/man1/kvcal.1", "doc/kvcal/README.md", "doc/kvcal/docs/models.md", "doc/kvcal/docs/plugins.md"):
    assert (share / name).stat().st_size > 0, name

# Nothing that runs models is installed here.
torch = subprocess.run([pathlib.Path(sys.prefix, "bin", "kvcal-torch"), "calibrate", "model"], stderr=subprocess.PIPE, text=True)
assert torch.returncode == 2 and torch.stderr.count("\n") == 1 and "it needs: pip install" in torch.stderr, torch.stderr

# The plug-ins: importing them needs no server, and without KV_CACHE_SCALES SGLang's does nothing.
points = {point.group: point for point in distribution("kvcal").entry_points if point.name == "kv_cache_scales"}
assert set(points) == {"vllm.general_plugins", "sglang.srt.plugins"}, points
before = set(sys.modules)
registers = {group: point.load() for group, point in points.items()}
registers["sglang.srt.plugins"]()
assert not {name.partition(".")[0] for name in set(sys.modules) - before} & {"torch", "vllm", "sglang"}
assert all(callable(register) for register in registers.values())
