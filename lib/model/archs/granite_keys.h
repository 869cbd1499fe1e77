// What Granite's classes have in common in their configs.
#pragma once

#include "model/decoders/moe_decoder.h"

namespace kvcal {

/// Of classes without windows, and of the one with windows and experts.
constexpr DecoderDefaults kGraniteDefaults = {
    .vocab = 32000, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048};

enum class SharedExperts : uint8_t { None, Read };

/// GraniteMoeForCausalLM and its like: experts in every layer, none with a window, multipliers, one RoPE.
MoeDecoderConfig read_granite_moe(const Json& text, const DecoderDims& dims, SharedExperts shared);

/// Throws where the config of a class without windows has keys of those with: vLLM reads them in all.
void refuse_swa_keys(const Json& text);

}  // namespace kvcal
