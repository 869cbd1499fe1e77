"""Makes the goldens of MTP layers: random weights of one beside an existing golden's checkpoint, and what the layer's
attention receives.

    python make_mtp_goldens.py [CASE...] [--out DIR]     (re)makes the folders tests/arch/mtp/<case>
    python make_mtp_goldens.py --check                   makes them again elsewhere and compares

The layer's input is written here after what servers do (docs/model-notes.md, "MTP layers", says where; the reference
framework has no such layers of some families, and rotates those of others by one more position). The decoder layer in it
is the reference framework's own. Format: tests/arch/mtp/README.md.
"""

import argparse
import copy
import filecmp
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import latent_rows
from cases import CASES
from golden_checkpoint import Draw, config_of, draw, stored_tensors
from json_lines import write_json
from make_arch_goldens import GOLDEN, PRECISIONS, Capture, absmax, load, movement

MTP = GOLDEN.parent / "mtp"
MAX_MOVEMENT = 0.01
TRIES = 24
CAPTURE = Capture()
AttentionInterface.register("golden", CAPTURE)
AttentionMaskInterface.register("golden", eager_mask)


@dataclass(frozen=True)
class MtpCase:
    name: str  # also the case in tests/arch/golden whose checkpoint it stands beside
    begin: str  # of the tensors' names
    layer: str  # of the decoder layer's, below that
    projection: str
    embedding_norm: str
    hidden_norm: str
    last_norm: str  # behind the layer: no part of what is cached
    zero_centred: bool  # gains: 1 + w
    first_empty: bool = False  # the row at position 0 reads no token's embedding
    fused_experts: bool = False  # in the file
    bare_hidden_first: bool = False  # the projection reads the hidden state first, which no final norm went over
    like: int | None = None  # the layer of the model that it is of a kind with
    renamed: dict = field(default_factory=dict)  # parts of names, from the reference framework's to the file's
    full_sequence: int = 0


HYBRID = ("mtp.", "layers.0.", "fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", True)
NEXTN = ("", "eh_proj", "enorm", "hnorm", "shared_head.norm", False, True)
CASES_MTP = (MtpCase("qwen3_5", *HYBRID), MtpCase("qwen3_5_moe", *HYBRID, fused_experts=True),
             MtpCase("qwen3_next", *HYBRID), MtpCase("glm4_moe", "model.layers.3.", *NEXTN),
             MtpCase("deepseek_v3", "model.layers.3.", *NEXTN), MtpCase("deepseek_v32", "model.layers.2.", *NEXTN),
             MtpCase("glm4_moe_lite", "model.layers.3.", *NEXTN), MtpCase("glm_moe_dsa", "model.layers.4.", *NEXTN, full_sequence=1),
             MtpCase("mimo", "model.mtp_layers.0.", "", "input_proj", "token_layernorm", "hidden_layernorm",
                     "final_layernorm", False, True, bare_hidden_first=True),
             MtpCase("mimo_v2", "model.mtp.layers.0.", "", "eh_proj", "enorm", "hnorm", "final_layernorm", False, like=0,
                     renamed={"post_attention_layernorm": "pre_mlp_layernorm", "sinks": "attention_sink_bias"}),
             MtpCase("ernie4_5_moe", "model.mtp_", "block.0.", "linear_proj.0", "emb_norm.0", "hidden_norm.0", "", False,
                     True))


LAYER_LISTS = {"layer_types": None, "mlp_layer_types": "sparse", "indexer_types": "full"}  # None: as the layer before


def decoder_layer(case: MtpCase, model) -> torch.nn.Module:
    """One more layer of the model's own kind: as the model's last one with attention is, or the one behind the last."""
    decoder = model.get_decoder()
    config = copy.deepcopy(decoder.config)
    if case.like is not None:
        return type(decoder.layers[case.like])(config, case.like)
    kinds = getattr(config, "layer_types", None) or []
    if "full_attention" in kinds:
        index = max(i for i, kind in enumerate(kinds) if kind == "full_attention")
        return type(decoder.layers[index])(config, index)
    for name, kind in LAYER_LISTS.items():
        if getattr(config, name, None):
            setattr(config, name, [*getattr(config, name), kind or getattr(config, name)[-1]])
    return type(decoder.layers[-1])(config, config.num_hidden_layers)


def loaded(base, precision: str):
    """The base's checkpoint, under the reference framework's own config where the folder has the publisher's."""
    folder = GOLDEN / base.name
    if not base.served:
        return load(base, folder, precision)
    with tempfile.TemporaryDirectory() as own:
        config_of(base).save_pretrained(own)
        (Path(own) / "model.safetensors").symlink_to(folder / "model.safetensors")
        return load(base, Path(own), precision)


def random_tensors(case: MtpCase, base, layer: torch.nn.Module, hidden: int, seed: int) -> dict[str, torch.Tensor]:
    shapes = {case.layer + name: t.shape for name, t in stored_tensors(layer).items()}
    shapes[case.projection + ".weight"] = (hidden, 2 * hidden)
    for norm in filter(None, (case.embedding_norm, case.hidden_norm, case.last_norm)):
        shapes[norm + ".weight"] = (hidden,)
    tensors = {}
    for name, shape in shapes.items():
        if name.startswith(("norm", "pre_fc_norm")):
            value = Draw(name, torch.Size(shape), seed).uniform(-0.5, 0.5)
        else:
            value = draw(base, name, torch.Size(shape), seed, case.zero_centred)
        tensors[case.begin + name] = value if name.endswith(base.f32_tensors or "-") else value.to(torch.bfloat16)
    return tensors


def published(case: MtpCase, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors as files have them: most experts one by one."""
    for old, new in case.renamed.items():
        tensors = {name.replace(old, new): t for name, t in tensors.items()}
    if case.fused_experts:
        return tensors
    files = {}
    for name, all_experts in tensors.items():
        if ".experts." not in name:
            files[name] = all_experts
            continue
        module, kind = name.rsplit(".", 1)
        for i, expert in enumerate(all_experts):
            parts = zip(("gate_proj", "up_proj"), expert.chunk(2)) if kind == "gate_up_proj" else [(kind, expert)]
            files |= {f"{module}.{i}.{part}.weight": t.clone() for part, t in parts}
    return files


def norm_of(decoder, gain: torch.Tensor) -> torch.nn.Module:
    """A norm as the decoder's last one, with another gain."""
    norm = copy.deepcopy(decoder.norm)
    norm.weight.data = gain
    return norm


def hidden_states(case: MtpCase, decoder, tokens: torch.Tensor) -> torch.Tensor:
    """Behind the final norm, or what goes into it."""
    bare = []
    hook = decoder.norm.register_forward_pre_hook(lambda _, args: bare.append(args[0]))
    normed = decoder(input_ids=tokens, use_cache=False).last_hidden_state
    hook.remove()
    return bare[0] if case.bare_hidden_first else normed


def rotations(decoder, layer, x, positions):
    """Of the kind of the layer, where kinds differ."""
    kinds = getattr(decoder.config, "layer_types", None) or [None]
    if any(kind in decoder.config.rope_parameters for kind in kinds):
        return decoder.rotary_emb(x, positions, kinds[layer.self_attn.layer_idx])
    return decoder.rotary_emb(x, positions)


def run(case: MtpCase, base, tensors: dict, precision: str, sequences: list[list[int]]) -> dict:
    model = loaded(base, precision)
    decoder, config = model.get_decoder(), model.get_decoder().config
    weights = {name.removeprefix(case.begin): t if t.dtype == torch.float32 else t.to(PRECISIONS[precision])
               for name, t in tensors.items()}
    layer = decoder_layer(case, model).eval()
    for name, tensor in stored_tensors(layer).items():
        tensor.data = weights[case.layer + name]
    decoder.layers.append(layer)  # beside its own layers, which alone it runs
    latent_rows.prepare(model)
    e_norm, h_norm = (norm_of(decoder, weights[name + ".weight"]) for name in (case.embedding_norm, case.hidden_norm))
    result = {"sites": [], "further_queries": [{} for _ in sequences]}
    for ids in sequences:
        tokens = torch.tensor([ids])
        states = hidden_states(case, decoder, tokens)
        rows, n = states[:, :-1], len(ids) - 1  # a token that none is behind has no row
        behind = decoder.embed_tokens(tokens[:, 1:])
        if case.first_empty:
            behind[:, 0] = 0
        parts = [e_norm(behind), h_norm(rows)]
        x = torch.cat(parts[::-1] if case.bare_hidden_first else parts, dim=-1) @ weights[case.projection + ".weight"].T
        positions = torch.arange(n)[None]
        axes = positions[None].expand(3, 1, n) if "mrope_section" in config.rope_parameters else positions
        mask = torch.full((n, n), -torch.inf).triu(1)[None, None].to(x.dtype)
        CAPTURE.start()
        layer(x, position_embeddings=rotations(decoder, layer, x, axes), attention_mask=mask, position_ids=positions)
        result["sites"].append(dict(CAPTURE.sites))
    return result


def write(case: MtpCase, base, folder: Path, seed: int, tensors: dict, sequences, runs: dict, maxima: dict) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(published(case, tensors), folder / "mtp.safetensors", metadata={"format": "pt"})
    whole = {f"{precision}.{site}": x.contiguous() for precision, result in runs.items()
             for site, x in result["sites"][case.full_sequence][-1].items()}
    save_file(whole, folder / "golden.safetensors")
    write_json(folder / "golden.json", {
        "case": case.name, "base": base.name, "made_by": Path(__file__).name, "torch": torch.__version__.split("+")[0],
        "seed": seed, "full_sequence": case.full_sequence, "absmax_moved_by_bf16": movement(maxima["f32"], maxima["bf16"]),
        "sequences": sequences, "absmax": {precision: m["-1"] for precision, m in maxima.items()}})


def make(case: MtpCase, folder: Path, seed: int | None) -> None:
    """Of the given seed, or of the steadiest one under bf16 rounding."""
    base = next(c for c in CASES if c.name == case.name)
    sequences = json.loads((GOLDEN / base.name / "golden.json").read_text())["sequences"]
    model = loaded(base, "f32")
    layer, hidden = decoder_layer(case, model), model.get_decoder().config.hidden_size
    best = None
    for s in [seed] if seed else range(1, TRIES + 1):
        tensors = random_tensors(case, base, layer, hidden, s)
        runs = {precision: run(case, base, tensors, precision, sequences) for precision in PRECISIONS}
        maxima = {precision: absmax(result) for precision, result in runs.items()}
        moved = movement(maxima["f32"], maxima["bf16"])
        if best is None or moved < best[0]:
            best = (moved, s, tensors, runs, maxima)
    if best[0] > MAX_MOVEMENT:
        raise RuntimeError(f"{case.name}: bf16 moves absmax by {best[0]:.4f}")
    write(case, base, folder, best[1], best[2], sequences, best[3], best[4])


def same(a: Path, b: Path) -> bool:
    if not (filecmp.cmp(a / "golden.json", b / "golden.json", shallow=False)):
        return False
    return all(torch.equal(x, load_file(b / file)[name]) for file in ("mtp.safetensors", "golden.safetensors")
               for name, x in load_file(a / file).items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--out", type=Path, default=MTP)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    failed = 0
    for case in CASES_MTP:
        if options.cases and case.name not in options.cases:
            continue
        known = MTP / case.name / "golden.json"
        seed = json.loads(known.read_text())["seed"] if known.exists() and options.check else None
        if not options.check:
            make(case, options.out / case.name, seed)
            continue
        with tempfile.TemporaryDirectory() as again:
            make(case, Path(again), seed)
            equal = same(MTP / case.name, Path(again))
            print(f"{case.name}: {'as committed' if equal else 'DIFFERS'}")
            failed += not equal
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
