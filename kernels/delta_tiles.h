// The delta rule on tensor cores in chunks of 16 rows: with a decay for every channel, and with one for a head where
// recurrence_tiles() has too little shared memory.
#pragma once

#include "kernels/kernels.h"

namespace kvcal::cuda {

enum class Gates { ByHead, ByChannel };  // g [tokens, n_value_heads] or [tokens, n_value_heads, dk]

/// recurrence() of a corrected shape, or channel_delta_rule(), in bf16; false when it does not take these shapes.
bool delta_tiles(Gates gates, const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& shape,
                 size_t shared_limit, cudaStream_t stream);

}  // namespace kvcal::cuda
