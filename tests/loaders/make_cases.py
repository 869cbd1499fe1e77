"""make_cases.py EXPORTS OUT: what run_cases.py shall run, into OUT/cases.json.

Exports: the folders of make_exports.sh, EXPORTS/<model>/<target>, with what the server must find in <target>.expect.json.
Plug-in and spelling cases: the checkpoints that these were made from, with their scale files or what is made of them.
"""

import json
import os
import shutil
import struct
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VLLM = "llama_llama3 qwen3 qwen3_moe qwen3_5 qwen3_5_vl qwen3_next gemma3 gemma4 gpt_oss falcon_h1 granite_hybrid mixtral seed_oss"
SGLANG_MORE = """gemma gemma2 gemma3_vl granite granite_moe granite_moe_shared olmo2 olmo3 olmoe qwen2 qwen2_moe qwen2_vl
qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5_moe mistral_window ministral ministral3 mistral3 phi3_window exaone4 glm glm4 glm4_moe
starcoder2 cohere cohere2 ernie4_5 ernie4_5_moe minimax_m2 llava hunyuan_dense hunyuan_moe lfm2 lfm2_moe jamba"""
SGLANG = "llama_llama3 qwen3 qwen3_moe qwen3_5 gemma3 llama4 falcon_h1 granite_hybrid nemotron_h mixtral"


# Models that a server does not take for other reasons than scales. make_models.py has variants of some.
NOT_SERVED = {
    "gemma4_k_eq_v": ("vllm", "sglang"),  # its vision_config is null
    "gemma3n": ("vllm", "sglang"),  # altup_correct_scale is false; feed-forwards of different widths
    "gemma3n_vl": ("vllm", "sglang"),  # its tower is of a package that neither brings
    "gemma4": ("sglang",),  # heads of two widths in a text-only config
    "gemma3_vl": ("vllm",),  # with images only Triton takes an FP8 cache, and heads of 32 at least
    "llama4": ("vllm",), "llama4_dense": ("vllm",),  # its experts' layers are at no regular distance
    "olmoe": ("sglang",),  # norms of keys as wide as those of queries
    "qwen2_vl_heads": ("vllm",), "qwen3_next_dense": ("vllm",),  # configs lack what vLLM reads
    "qwen3_window": ("vllm",), "qwen3_vl_moe_saved": ("vllm",),  # experts as only the reference framework saves them
    "qwen2_5_vl": ("vllm",), "qwen2_5_vl_heads": ("vllm",),  # a window in some layers
    "decilm": ("vllm", "sglang"), "nemotron_h_puzzle": ("vllm",),  # their config classes come with the published files
    "muse_glimmer_defaults": ("sglang",),  # its config lacks what SGLang reads
    "deepseek_moe": ("vllm", "sglang"),  # its config class comes with the published files
    # Towers of fixed sizes, which the goldens lack, and a tokenizer with <image>.
    "deepseek_ocr": ("vllm", "sglang"), "deepseek_ocr2": ("vllm", "sglang"), "deepseek_vl2_tiny": ("vllm", "sglang"),
    "qwen3_5_vl": ("sglang",), "qwen3_5_moe_vl": ("sglang",),  # attention at no regular distance
}
# Classes and weight formats that the checker cannot load, with what it says; nothing is known of their scales.
LIMITS = {
    ("sglang", "quark"): "not supported between instances of 'int' and 'NoneType'",  # asks for the GPU's capability
    ("sglang", "Exaone4ForCausalLM"): "attention backends in .* is required",
    ("sglang", "Qwen3NextForCausalLM"): "CHECKER LIMIT",
}
EXPORTS = (("vllm", "vllm"), ("sglang", "sglang"), ("modelopt", "vllm"), ("modelopt", "sglang"), ("quark", "vllm"),
           ("quark", "sglang"), ("vllm-head", "vllm"), ("vllm", "sglang"))  # target and server


class Workshop:
    """Models and their scales are those that make_exports.sh left in EXPORTS/.inputs."""

    def __init__(self, exports, out):
        self.exports, self.out, self.cases = exports, out, []

    def model(self, name):
        return os.path.join(self.exports, ".inputs", name, "model")

    def edit(self, path, change, to=None):
        with open(path) as file:
            root = json.load(file)
        change(root)
        with open(to or path, "w") as file:
            json.dump(root, file, indent=1)
        return to or path

    def scales(self, name, kind="scales"):
        return os.path.join(self.exports, ".inputs", name, kind + ".json")

    def changed(self, name, label, change):
        os.makedirs(os.path.join(self.out, "scales"), exist_ok=True)
        return self.edit(self.scales(name), change, os.path.join(self.out, "scales", f"{name}-{label}.json"))

    def expectation(self, scales, query, names=None):
        """What the checker must find, from the scale file by rules written here once more. `names`: the server's, by layer."""
        with open(scales) as file:
            root = json.load(file)
        layers, drafts = {}, root.get("mtp_layers", [])
        for layer in root["layers"] + drafts:
            row = layer.get("latent")
            sites = {"k": row or layer["key"], "v": row or layer["value"]} | ({"q": layer["query"]} if query else {})
            index = f"mtp.{drafts.index(layer)}" if layer in drafts else layer["index"]
            layers[index] = {s: x.get("scale_per_head", x["scale"]) for s, x in sites.items()}
        for layer in root["layers_without_kv"]:
            if "shares_kv_with" in layer:
                layers[layer["index"]] = layers[layer["shares_kv_with"]]
        layers = {(names or {}).get(index, index): sites for index, sites in layers.items()}
        path = scales.removesuffix(".json") + (".expect_kvq" if query else ".expect_kv")
        with open(path, "w") as file:
            json.dump({"layers": layers}, file)
        return path

    def add(self, server, name, folder, flags=(), env=None, files=(), **more):
        case = {"server": server, "name": name, "dir": folder, "flags": list(flags), "env": env or {}, "files": list(files)}
        self.cases.append(case | more)

    def plugin(self, server, name, folder, scales, flags=(), env=None, options=None, names=None, **more):
        """A case with the plug-in; the scales are expected exactly unless `want` says otherwise."""
        if server == "vllm":
            given = {"path": scales, **options} if options else scales
            own = {"KVCAL_CHECK_LOAD_FORMAT": "kv_cache_scales"}
            own["KVCAL_CHECK_ADDITIONAL_CONFIG"] = json.dumps({"kv_cache_scales": given})
        else:
            own = {"KV_CACHE_SCALES": scales} | ({"KV_CACHE_SCALES_ALLOW_OTHER_WEIGHTS": "1"} if options else {})
        own["KVCAL_CHECK_PLUGINS"] = "kv_cache_scales"
        expect = ["--expect", self.expectation(scales, server == "vllm", names)]
        logic = [os.path.join(SOURCE, "apps", "plugins", "kv_cache_scales", name + ".py") for name in ("scale_file", server)]
        self.add(server, "plugin/" + name, folder, expect + list(flags), own | (env or {}), [scales, *logic], **more)


def overlay(folder, out, tensors, scheme):
    """`folder` with KV scales {name: [numbers]} in a second shard, as a compressed-tensors producer would write it."""
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(folder, out)
    header, data = {}, b""
    for name, numbers in tensors.items():
        header[name] = {"dtype": "F32", "shape": [len(numbers), 1, 1] if len(numbers) > 1 else [1]}
        header[name]["data_offsets"] = [len(data), len(data) + 4 * len(numbers)]
        data += struct.pack(f"<{len(numbers)}f", *numbers)
    text = json.dumps(header).encode()
    with open(os.path.join(out, "kv_scales.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(out, "model.safetensors"), "rb") as file:
        names = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    weights = {n: "model.safetensors" for n in names if n != "__metadata__"}
    with open(os.path.join(out, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": weights | dict.fromkeys(tensors, "kv_scales.safetensors")}, file)
    kv = {"num_bits": 8, "type": "float", "strategy": scheme, "symmetric": True, "dynamic": False}
    with open(os.path.join(out, "config.json")) as file:
        config = json.load(file)
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "dense", "quantization_status": "compressed",
        "config_groups": {}, "ignore": [], "kv_cache_scheme": kv,
    }
    with open(os.path.join(out, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    return out


def plugin_cases(shop):
    for server, names in (("vllm", VLLM.split()), ("sglang", SGLANG.split())):
        for name in names:
            shop.plugin(server, name, shop.model(name), shop.scales(name))
        shop.plugin(server, "awq", shop.model("llama_awq"), shop.scales("llama_awq"))
        refusals(shop, server)
    shop.plugin("vllm", "mla", shop.model("mla"), shop.scales("mla"))
    # The checker does not see the attention of SGLang's Transformers fallback; the plug-in refuses unless it sets every layer.
    for name in ("seed_oss", "smollm3"):
        blind = "^differs: BAD expected scales .*no such attention layer"
        shop.plugin("sglang", name, shop.model(name), shop.scales(name), want=blind)
    # Two blocks take turns on layers 1 to 3; the server numbers their caches block by block.
    turns = {1: "model.attn.0", 3: "model.attn.1", 2: "model.attn.2"}
    shop.plugin("vllm", "zamba2", shop.model("zamba2"), shop.scales("zamba2"), names=turns)
    llama, heads = shop.model("llama_llama3"), shop.scales("llama_llama3", "heads")
    names = [f"model.layers.{i}.self_attn.{s}_scale" for i in range(3) for s in "kv"]
    per_tensor = overlay(llama, os.path.join(shop.out, "overlays", "llama_other_scales"), dict.fromkeys(names, [0.75]), "tensor")
    per_head = overlay(llama, os.path.join(shop.out, "overlays", "llama_heads"), dict.fromkeys(names, [0.75] * 3), "attn_head")
    for server in ("vllm", "sglang"):  # the file wins over the checkpoint
        shop.plugin(server, "over checkpoint scales", per_tensor, shop.scales("llama_llama3"))
    shop.plugin("vllm", "per head", per_head, heads)


def refusals(shop, server):
    name = "llama_llama3"
    model, scales = shop.model(name), shop.scales(name)
    fewer = shop.changed(name, "fewer", lambda r: r["layers"].pop())
    more = shop.changed(name, "more", lambda r: r["layers"].append({**r["layers"][2], "index": 3}))
    heads = shop.changed(name, "heads", lambda r: r["layers"][1].update(n_kv_heads=1))
    widths = shop.changed(name, "widths", lambda r: r["layers"][1].update(head_dim_v=8))
    other = shop.changed(name, "other", lambda r: r["model"].update(weights_fingerprint="0" * 64))
    row = shop.changed("mla", "one", lambda r: [layer["latent"].update(scale=1.0) for layer in r["layers"]])

    def refuse(label, want, folder=model, file=scales, **given):
        shop.plugin(server, label, folder, file, want="^refused: .*" + want, **given)

    refuse("missing layer", "has no scales for .*layer 2", file=fewer)
    refuse("unknown layer", r"has scales for layers \[3\]", file=more)
    refuse("other heads", "query and 3 KV heads", file=heads)
    refuse("other widths", "16 and 16 wide", file=widths)
    refuse("other model", "is for LlamaForCausalLM, this model is Qwen3ForCausalLM", folder=shop.model("qwen3"))
    refuse("other weights", "have the fingerprint", file=other)
    refuse("awq copy", "have the fingerprint", folder=shop.model("llama_awq"))
    refuse("auto cache dtype", "cache is auto", flags=["--kv-cache-dtype", "auto"])
    with open(shop.scales("llama_awq")) as file:
        awq = json.load(file)["model"]["weights_fingerprint"]
    listed = shop.changed(name, "listed", lambda r: r["model"].update(also_valid_for=[awq]))
    shop.plugin(server, "awq copy, listed", shop.model("llama_awq"), listed)
    shop.plugin(server, "other weights, allowed", model, other, options={"allow_other_weights": True})
    if server == "vllm":
        refuse("absent plug-in", "Load format `kv_cache_scales` is not supported", env={"KVCAL_CHECK_PLUGINS": ""})
        refuse("other load format", "serve with --load-format kv_cache_scales", env={"KVCAL_CHECK_LOAD_FORMAT": "auto"})
        refuse("bfloat16 cache", "cache is bfloat16", flags=["--kv-cache-dtype", "bfloat16"])
    else:
        shop.plugin(server, "absent plug-in", model, scales, env={"KVCAL_CHECK_PLUGINS": ""}, want="^differs: .*defaulted")
        refuse("mla", "is MLA with scale", folder=shop.model("mla"), file=shop.scales("mla"))
        shop.plugin(server, "mla, scale 1", shop.model("mla"), row)


def spelling_cases(shop):
    """Checkpoint scales under each name, in a compressed-tensors overlay: what lib/servers/server_table.cpp claims."""
    suffixes = {"attention": ".{}_scale", "projection": ".{}_proj.{}_scale", "native": ".attn.{}_scale"}
    for server, names in (("vllm", VLLM.split() + ["mla"]), ("sglang", SGLANG.split() + SGLANG_MORE.split() + ["mla"])):
        for name in names:
            folder, scales = shop.model(name), shop.scales(name)
            with open(scales) as file:
                root = json.load(file)
            for spelling, suffix in suffixes.items():
                if server == "vllm" and spelling != "attention" and name not in ("llama_llama3", "qwen3_5", "mla"):
                    continue  # one table of patterns for all classes
                written = {}
                for layer in root["layers"]:
                    for site, member in (("k", "key"), ("v", "value")):
                        written[layer["name"] + suffix.format(site, site)] = [layer.get("latent", layer.get(member))["scale"]]
                path = os.path.join(shop.out, "overlays", name, spelling)
                if not os.path.exists(path):
                    overlay(folder, path, written, "tensor")
                says = {"architecture": root["model"]["architecture"], "carrier": "compressed-tensors", "spelling": spelling}
                shop.add(server, f"spelling/{name}/{spelling}", path, says=says, want="^(ok|differs|refused)")


SPELLINGS = (("_proj.output_scale", "output"), ("_proj.k_scale", "projection"), (".attn.k_scale", "native"),
             (".k_scale", "attention"))  # the first that fits


def carrier_of(config):
    """The weight format as lib/servers/server_support.cpp calls it; its name_of(KvCarrier)."""
    quantization = config.get("quantization_config") or config.get("text_config", {}).get("quantization_config") or {}
    method = quantization.get("quant_method", "none")
    per_head = (quantization.get("kv_cache_scheme") or {}) if method == "compressed-tensors" else {}
    return method + (", per head" if per_head.get("strategy") == "attn_head" else "")


def spelling_of(folder):
    with open(os.path.join(folder, "model.safetensors.index.json")) as file:
        names = json.load(file)["weight_map"]
    return next(spelling for suffix, spelling in SPELLINGS if any(name.endswith(suffix) for name in names))


def export_cases(shop):
    """What make_exports.sh made, each target for the server it is meant for: the scales must be in use as they were meant.

    SGLang also gets what was made for vLLM, with query scales, and by ModelOpt's and Quark's conventions, and may refuse it:
    what it does with it is held against the table. A variant of every class comes before the second of any.
    """
    found, seen = [], set()
    for model in sorted(m for m in os.listdir(os.path.join(shop.exports, ".inputs")) if not m.endswith("_mtp")):
        with open(shop.scales(model)) as file:
            root = json.load(file)
        architecture = root["model"]["architecture"]
        with open(os.path.join(shop.model(model), "config.json")) as file:
            quantised = carrier_of(json.load(file))
        # No attention backend of vLLM takes other widths; make_models.py has variants of these goldens that have them.
        odd = any(layer["head_dim_k"] % 8 for layer in root["layers"])
        for order, (target, server) in enumerate(EXPORTS):
            if odd and server == "vllm" or server in NOT_SERVED.get(model, ()):
                continue
            key = (target, server, architecture, quantised)
            found.append(((key in seen, order), model, target, server, (architecture, quantised)))
            seen.add(key)
    for _, model, target, server, what in sorted(found):
        export_case(shop, os.path.join(shop.exports, model, target), server, f"export/{model}/{target}", *what)


def export_case(shop, folder, server, name, architecture, carrier):
    says, expect = {"architecture": architecture}, folder + ".expect.json"
    meant = server == "vllm" or os.path.basename(folder) == "sglang"
    if os.path.exists(folder + ".refused"):
        if meant:
            if "-" not in os.path.basename(folder):  # scales per head are refused for other reasons as well
                says["carrier"] = carrier if carrier != "none" else "compressed-tensors"
            with open(folder + ".refused") as file:
                shop.add(server, name, folder, says=says, not_exported=file.read().strip())
        return
    if not os.path.exists(expect):
        return
    with open(os.path.join(folder, "config.json")) as file:
        says |= {"carrier": carrier_of(json.load(file)), "spelling": spelling_of(folder)}
    more = {} if meant else {"want": "^(ok|differs|refused)"}
    for what in (architecture, carrier):
        if (server, what) in LIMITS:
            more = {"want": LIMITS[server, what]}
    if not meant and os.path.basename(folder) == "vllm":
        says["with_query"] = True
    shop.add(server, name, folder, ["--expect", expect], files=[expect], says=says, **more)


def mtp_cases(shop):
    """Exports with the scales of an MTP layer, in a server that drafts tokens with it, which loads them by a class of its own."""
    env = {"KVCAL_CHECK_DRAFT": "1"}
    for model in sorted(m for m in os.listdir(os.path.join(shop.exports, ".inputs")) if m.endswith("_mtp")):
        with open(shop.scales(model)) as file:
            says = {"architecture": json.load(file)["model"]["architecture"], "carrier": "compressed-tensors"}
        for server in ("vllm", "sglang"):
            limit = LIMITS.get((server, says["architecture"]))
            more = {"want": limit} if limit else {}
            folder = os.path.join(shop.exports, model, server)
            expect = folder + ".expect.json"
            if os.path.exists(expect):
                said = says | {"spelling": "native" if server == "vllm" else spelling_of(folder)}
                shop.add(server, f"mtp/{model}/{server}", folder, ["--expect", expect], env, [expect], says=said, **more)
            shop.plugin(server, f"mtp/{model}", shop.model(model), shop.scales(model), env=env, **more)
    with open(shop.scales("glm4_moe_mtp")) as file:
        root = json.load(file)
    written = {layer["name"] + f".{site}_scale": [layer[member]["scale"]] for layer in root["layers"] + root["mtp_layers"]
               for site, member in (("k", "key"), ("v", "value"))}
    folder = overlay(shop.model("glm4_moe_mtp"), os.path.join(shop.out, "overlays", "mtp"), written, "tensor")
    says = {"architecture": root["model"]["architecture"], "carrier": "compressed-tensors", "spelling": "attention"}
    shop.add("vllm", "mtp/glm4_moe_mtp/attention", folder, env=env, says=says, want=r"^refused: .*KeyError: .*self_attn\.k_scale")


def broken_cases(shop):
    """Exports with wrong numbers: a checker that takes them proves nothing."""
    with open(os.path.join(shop.exports, "llama_llama3", "vllm.expect.json")) as file:
        layers = json.load(file)["layers"]
    expect = os.path.join(shop.exports, "llama_llama3", "sglang.expect.json")
    for label, change in (("doubled", lambda k, v: (2 * k, 2 * v)), ("swapped", lambda k, v: (v, k))):
        written = {}
        for index, sites in layers.items():
            for site, number in zip("kv", change(sites["k"][0], sites["v"][0])):
                written[f"model.layers.{index}.self_attn.{site}_scale"] = [number]
        folder = overlay(shop.model("llama_llama3"), os.path.join(shop.out, "overlays", "broken", label), written, "tensor")
        for server in ("vllm", "sglang"):
            want = r"^differs: BAD .*\[[0-9.e-]+\], expected"
            shop.add(server, "broken/" + label, folder, ["--expect", expect], files=[expect], want=want)


def main(exports, out):
    shop = Workshop(exports, out)
    export_cases(shop)
    mtp_cases(shop)
    broken_cases(shop)
    plugin_cases(shop)
    spelling_cases(shop)
    with open(os.path.join(out, "cases.json"), "w") as file:
        json.dump(shop.cases, file, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
