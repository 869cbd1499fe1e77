"""What an indexer lets a query see. The framework leaves that to its kernels, and to its own eager attention."""

import torch


def mask_of(module, mask: torch.Tensor, arguments: dict) -> torch.Tensor:
    """The mask of an attention function's call without the keys that an indexer has not picked: single ones (DeepSeek-V3.2,
    GLM-5) or blocks (MiniMax-M3)."""
    if arguments.get("block_indices") is not None:
        return module.indexer.build_block_mask(arguments["block_indices"], mask, mask.shape[-1], mask.dtype, mask.device,
                                               None)
    if arguments.get("indices") is None:
        return mask
    left_out = torch.ones_like(mask, dtype=torch.bool).scatter(-1, arguments["indices"].long().unsqueeze(1), False)
    return mask.masked_fill(left_out, torch.finfo(mask.dtype).min)
