// Formats that quantization.h lists as not read. Their tensors may look like those of another format (bytes with a
// scale beside them), so what config.json says goes first.
#include <algorithm>

#include "base/error.h"
#include "checkpoint/formats/stored_weight.h"

namespace kvcal {

void refuse_unread_format(const WeightRequest& request) {
  const std::string lora = request.module("svdquant_lora_a");
  const std::string inner = request.module("weight_quantizer.svdquant_lora_a");
  const bool low_rank = request.checkpoint.has(lora) || request.checkpoint.has(inner);
  if (request.facts.unread.empty() && !low_rank) return;
  // All that belongs to the module; a weight that a model may have or not is not there at all.
  const auto parts = request.checkpoint.names_below(request.module(""));
  const bool stored = request.checkpoint.has(request.name) ||
                      std::ranges::any_of(parts, [](const std::string& name) { return !name.ends_with(".bias"); });
  if (!stored) return;
  fail("weight " + quoted(request.name) + " is stored as " +
       (low_rank ? "NVFP4 of ModelOpt with a low-rank part (SVDQuant)" : request.facts.unread) +
       ", which is not read; use the BF16 checkpoint that it was made from, or an FP8, AWQ, GPTQ or "
       "compressed-tensors " +
       "(pack-quantized) version of it");
}

}  // namespace kvcal
