"""What a server caches and compares of MLA: rows [normed latent | roped key part] and absorbed queries.

The reference framework expands both before its attention function is called; here they are made again from what that
function receives, the output of kv_a_layernorm and the key half of kv_b_proj.
"""

import torch


def is_latent(module) -> bool:
    return hasattr(module, "kv_a_layernorm")


def prepare(model) -> None:
    """Norms of latents use the config's epsilon, as servers do (the reference has its class default there), and keep
    their output."""
    for module in filter(is_latent, model.modules()):
        eps = model.config.get_text_config().rms_norm_eps
        for name in ("q_a_layernorm", "kv_a_layernorm"):
            if getattr(module, name) is not None:
                getattr(module, name).variance_epsilon = eps
        module.kv_a_layernorm.register_forward_hook(lambda norm, args, output: setattr(norm, "normed", output.detach()))


def in_pairs(module, x: torch.Tensor) -> torch.Tensor:
    """The rope part with the channels of a pair side by side, as servers turn it; newer classes leave them in halves."""
    if not getattr(module.config, "rope_interleave", hasattr(module.config, "index_topk")):
        return x
    half = x.shape[-1] // 2
    return torch.stack((x[..., :half], x[..., half:]), dim=-1).flatten(-2)


def sites(module, query: torch.Tensor, key: torch.Tensor) -> dict[str, torch.Tensor]:
    """From query and key [1, heads, tokens, nope + rope]: {site: [tokens, heads, width]}."""
    nope, rank = module.qk_nope_head_dim, module.kv_lora_rank
    query, key = query[0].transpose(0, 1), key[0].transpose(0, 1)
    key_half = module.kv_b_proj.weight.view(query.shape[1], -1, rank)[:, :nope]  # [heads, nope, rank]
    absorbed = torch.einsum("thp,hpr->thr", query[..., :nope], key_half)
    latent = module.kv_a_layernorm.normed.reshape(-1, 1, rank)
    found = {"query": torch.cat((absorbed, in_pairs(module, query[..., nope:])), dim=-1),
             "latent": torch.cat((latent, in_pairs(module, key[:, :1, nope:])), dim=-1)}
    return {site: x.contiguous().detach() for site, x in found.items()}
