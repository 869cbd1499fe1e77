// Sampled attention of bf16 on tensor cores: in the order in which they run, since figures hold what the kernels behind
// them need until these have written them. The last two are for thorough rows.
#pragma once

#include "kernels/kernels.h"

namespace kvcal::cuda {

void sample_key_logits(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);
void sample_value_outputs(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);
void sample_key_outputs(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);
void sample_query_logits(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream);

}  // namespace kvcal::cuda
