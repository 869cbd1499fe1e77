// The global scale of an NVFP4 cache, as ModelOpt writes and vLLM loads it.
#pragma once

namespace kvcal {

/// absmax / 448, rounded up to what bfloat16 holds, since vLLM keeps it in the model's dtype; 1 for absmax 0. Block
/// scales are E4M3 numbers beside it, of at most 75 where what was measured is stored, so that values six times as
/// large fit. ModelOpt 0.42 to 0.48 divide so (AutoRound by 2688, llm-compressor's plans by 6). What evaluate measures
/// is what export writes.
float nvfp4_global_scale(float absmax);

/// The smallest bf16 value that is not below. It is exact in float16 too.
float bf16_rounded_up(float scale);

}  // namespace kvcal
