// How much each value channel of a head weighs in what attention adds to the residual stream.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace kvcal {

/// Norms of the columns of an output projection W [out, n_heads · D] that is not on a device: [n_heads, D]. With
/// `expansion` E [n_heads · D, rank], which makes head h's D values of a latent row, those of the latent's channels
/// instead: sqrt(Σ_j |W[:, h D + j]|² E[h D + j, c]²), [n_heads, rank], as if the rows of E pointed in directions of
/// their own. Sums in double, in order.
std::vector<float> column_norms(const Tensor& weight, const Tensor& expansion, int64_t n_heads);

}  // namespace kvcal
