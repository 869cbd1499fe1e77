// Cells of a map of layers by heads: which heads share a cell, and how dark it is.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace kvcal {

constexpr size_t kMostColumns = 32;
constexpr int kShades = 9;

/// Neighboring heads that share a cell, so that at most kMostColumns columns are left.
size_t heads_per_cell(size_t n_heads);

/// The largest of each group of heads.
std::vector<float> cells_of(std::span<const float> absmax_per_head, size_t heads_per_cell);

/// 0 to kShades - 1, evenly over the octaves from `low` to `high`; equal ends give the middle.
int shade_of(double absmax, double low, double high);

}  // namespace kvcal
