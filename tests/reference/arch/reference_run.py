"""What the reference framework makes of a model folder: caches, Q, K, V of every layer, last logits, parameters."""

import json
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from golden_checkpoint import class_of, config_of, draw_all, layers_of, parameters_of
from json_lines import write_json
from make_arch_goldens import Capture, NarrowestChoice, load


# Published files, and servers, have another name of the class.
OWN_NAMES = {"BailingMoeForCausalLM": "GraniteMoeSharedForCausalLM", "BailingMoeV2ForCausalLM": "Glm4MoeForCausalLM",
             "DeepseekOCRForCausalLM": "DeepseekOcr2ForConditionalGeneration",
             "DeepseekOCR2ForCausalLM": "DeepseekOcr2ForConditionalGeneration",
             "DeepseekVLV2ForCausalLM": "DeepseekOcr2ForConditionalGeneration",  # which has its text model, in one of its forms
             "Gemma3nForConditionalGeneration": "Gemma3nForCausalLM",  # whose towers are of another package
             "KimiK25ForConditionalGeneration": "Kimi_K25ForConditionalGeneration",
             "ExaoneMoEForCausalLM": "ExaoneMoeForCausalLM", "LLaMAForCausalLM": "LlamaForCausalLM",
             "MiniMaxM3SparseForCausalLM": "MiniMaxM3VLForCausalLM",
             "Phi4MMForCausalLM": "Phi3ForCausalLM",
             "PhiMoEForCausalLM": "PhimoeForCausalLM",
             "Qwen2_5OmniForConditionalGeneration": "Qwen2_5OmniThinkerForConditionalGeneration",
             "Qwen3OmniMoeForConditionalGeneration": "Qwen3OmniMoeThinkerForConditionalGeneration",
             "TeleChat3ForCausalLM": "LlamaForCausalLM"}


def own_name(architecture: str) -> str:
    return OWN_NAMES.get(architecture, architecture)


def servers_dynamic_rope() -> None:
    """One base for all positions, as servers have it: as if the context were `factor` times its length already."""
    theirs = ROPE_INIT_FUNCTIONS["dynamic"]

    def fixed(config, device=None, seq_len=None, layer_type=None):
        table = config.rope_parameters[layer_type] if layer_type is not None else config.rope_parameters
        return theirs(config, device, int(config.max_position_embeddings * table["factor"]), layer_type)

    ROPE_INIT_FUNCTIONS["dynamic"] = fixed


def write_model(case, folder, seed, rewrite) -> int:
    """Weights in f32 and config.json, which `rewrite` may describe otherwise. -> parameters of the language model"""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = class_of(case.model)(config_of(case)).eval()
    draw_all(case, model, seed)
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | dict(architectures=[case.name])
    write_json(folder / "config.json", rewrite(config, model.config))
    if case.published_tensors:
        tensors = case.published_tensors(load_file(folder / "model.safetensors"))
        save_file({name: t.contiguous() for name, t in tensors.items()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
    return parameters_of(model)


def write_served(served, config: dict, folder, to) -> None:
    """A model that write_model() has written, as files that servers alone read. `served`: what config and tensors become."""
    to.mkdir()
    write_json(to / "config.json", served[0](config))
    tensors = served[1](load_file(folder / "model.safetensors"))
    save_file({name: t.contiguous() for name, t in tensors.items()}, to / "model.safetensors", metadata={"format": "pt"})


def run(case, folder, sequences) -> dict:
    """{"tensors": {name as driver.cpp has it: tensor}, "layouts": {layer: as golden.json has it, with "window"},
    "cached": {layer: [key heads, rows, width]} of the framework's own cache, "choice": how narrow a router chose}"""
    capture, tensors = Capture(), {}
    AttentionInterface.register("golden", capture)
    AttentionMaskInterface.register("golden", eager_mask)
    model = load(case, folder, "f32")
    for i, block in enumerate(layers_of(model)):
        block.register_forward_pre_hook(lambda m, args, i=i: setattr(capture, "layer", i))
    with NarrowestChoice() as choice:
        for n, ids in enumerate(sequences):
            capture.start()
            out = model(input_ids=torch.tensor([ids]), use_cache=True)
            cache, tensors[f"{n}.logits"] = out.past_key_values, out.logits[0, -1]
            for layer, sites in capture.sites.items():
                tensors |= {f"{n}.{layer}.{site}": x for site, x in sites.items()}
            for layer, queries in capture.further_queries.items():
                tensors |= {f"{n}.{layer}.query{i}": q for i, q in enumerate(queries, 1)}
    layouts = capture.layouts()
    for layer, visible in capture.visible.items():
        layouts[str(layer)]["visible"] = visible
    kept = {i: layer.keys for i, layer in enumerate(cache.layers) if getattr(layer, "keys", None) is not None}
    config = model.config.get_text_config()
    return dict(tensors=tensors, layouts=layouts, choice=choice.gap, vocab=config.vocab_size, hidden=config.hidden_size,
                chunked=hasattr(config, "attention_chunk_size"),  # of whose layers no window is reported
                tied=model.get_output_embeddings().weight is model.get_input_embeddings().weight,
                n_layers=len(layers_of(model)), cached={str(i): list(k.shape[1:]) for i, k in kept.items() if k.numel()})
