"""check_folds.py SERVER FOLDS: what a server's own code makes of folded folders, beside their originals.

SERVER is vllm or sglang. FOLDS holds a folder for each case: CASE/model, and CASE/folded that `kvcal fold` made of it
(make_folds.sh). Exit 1 when a folded folder loads otherwise than its original: other parameters, shapes or dtypes; a
tensor of the record whose rows (or columns) are not, bit for bit, in a parameter of its layer, where the original's
are; any other parameter that differs; or scales of the cache other than 1.0. A model that the server does not load in
either form is said to be so.
"""

import json
import os
import re
import sys
import tempfile
import traceback

import verdict


def keep(model, kept):
    """Parameters as load_weights() left them: what is done to weights afterwards may repack them, for a CPU or a GPU."""
    if not kept:
        kept.update({name: p.detach().clone() for name, p in model.named_parameters()})


def load_vllm(options, kept):
    import check_vllm
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader import base_loader, get_model_loader

    config = check_vllm.engine_config(options)
    check_vllm.start_ranks(config)
    check_vllm.forgive_repacking([])
    process = base_loader.process_weights_after_loading
    base_loader.process_weights_after_loading = lambda model, *more: (keep(model, kept), process(model, *more))
    with set_current_vllm_config(config):
        loader = get_model_loader(config.load_config)
        model = loader.load_model(vllm_config=config, model_config=config.model_config)
    return check_vllm.scales_in_use(config)


def load_sglang(options, kept):
    import check_sglang
    from sglang.srt.configs.model_config import ModelConfig
    from sglang.srt.model_loader import loader

    arguments = check_sglang.server_arguments(options)
    model_config = ModelConfig.from_server_args(arguments)
    check_sglang.start_ranks(arguments, model_config)
    check_sglang.forgive_repacking([])
    methods = loader._modules_with_quant_method
    loader._modules_with_quant_method = lambda model: (keep(model, kept), methods(model))[1]
    model = check_sglang.load(model_config)
    return check_sglang.scales_in_use(model, "fp8_e4m3", [])


def loaded(server, folder):
    """In a forked child, since a loader leaves its process in one model's state. -> {"parameters", "scales"} or the error"""
    import torch

    checker = __import__(f"check_{server}")
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            parameters = {}
            try:
                with verdict.Silence(os.environ.get("KVCAL_VERBOSE")):
                    scales = globals()[f"load_{server}"](checker.args([folder]), parameters)
                ones = all(layer[site] == [1.0] * len(layer[site]) for layer in scales.values() for site in "kv")
                torch.save({"parameters": parameters, "scales": len(scales) if ones else 0}, file.name)
            except BaseException as e:
                if os.environ.get("KVCAL_VERBOSE"):
                    traceback.print_exc()
                torch.save({"error": f"{type(e).__name__}: {str(e).strip().splitlines()[-1][:200] if str(e) else ''}"},
                           file.name)
            os._exit(0)
        os.waitpid(child, 0)
        return torch.load(file.name)


def stored(folder):
    from safetensors.torch import load_file

    return {name: t for f in sorted(os.listdir(folder)) if f.endswith(".safetensors") and not f.startswith("golden")
            for name, t in load_file(os.path.join(folder, f)).items()}


def as_bytes(tensor):
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)


def has_rows(parameter, tensor):
    """All rows of the tensor stand in the parameter, one below the other."""
    if parameter.ndim != tensor.ndim or parameter.shape[1:] != tensor.shape[1:]:
        return False
    rows, n = parameter.to(tensor.dtype), tensor.shape[0]
    return any(rows[at:at + n].equal(tensor) for at in range(rows.shape[0] - n + 1))


def home_of(tensor, layer, parameters):
    """Names of the parameters of that layer that hold the tensor."""
    return [name for name, parameter in parameters.items() if layer in name and (
        has_rows(parameter, tensor) or tensor.ndim == parameter.ndim == 2 and has_rows(parameter.t(), tensor.t()))]


def differences(case):
    """Of two results of loaded(), and the files that they were loaded from."""
    before, after = case["original"]["parameters"], case["folded"]["parameters"]
    form = {side: {n: (tuple(p.shape), p.dtype) for n, p in found.items()} for side, found in (("a", before), ("b", after))}
    if form["a"] != form["b"]:
        return ["other parameters"]
    found, homes = [] if case["folded"]["scales"] else ["scales of the cache are not 1.0"], set()
    changed = {entry["name"] for entry in case["record"]["tensors"]}
    for name in sorted(changed):
        layer = re.search(r"layers\.\d+\.", name)[0]
        own = home_of(case["files"][name], layer, after)
        homes.update(own)
        if not own and home_of(case["original files"][name], layer, before):  # SGLang leaves block scales out on a CPU
            found.append(f"{name} is in no parameter")
    found += [f"{name} differs" for name in before
              if name not in homes and not as_bytes(before[name]).equal(as_bytes(after[name]))]
    return found + ([] if any(not before[n].equal(after[n]) for n in homes) else ["nothing differs from the original"])


def check(server, place):
    folder = {side: os.path.join(place, side) for side in ("model", "folded")}
    with open(os.path.join(folder["folded"], "kvcal-fold.json")) as file:
        record = json.load(file)
    original, folded = loaded(server, folder["model"]), loaded(server, folder["folded"])
    if "error" in original:
        same = original["error"].replace("/model", "") == folded.get("error", "").replace("/folded", "")
        return [] if same else ["the original does not load, the folded one otherwise"], f"not loaded: {original['error']}"
    if "error" in folded:
        return [f"does not load: {folded['error']}"], ""
    found = differences({"original": original, "folded": folded, "record": record, "files": stored(folder["folded"]),
                         "original files": stored(folder["model"])})
    return found, f"{len(record['tensors'])} tensors, {folded['scales']} layers at 1.0"


def main(server, folds):
    checker = __import__(f"check_{server}")
    checker.reexec()
    checker.preload()
    failed = 0
    for case in sorted(os.listdir(folds)):
        found, said = check(server, os.path.join(folds, case))
        print(f"{server:7s} {case:20s} {said}", *(f"    {line}" for line in found), sep="\n" if found else "", flush=True)
        failed += bool(found)
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
