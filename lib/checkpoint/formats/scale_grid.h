// Scales of a weight [experts · out, in]: one for each rectangle of rows and columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checkpoint/formats/stored_weight.h"
#include "tensor/scale_grid.h"

namespace kvcal {

/// Of a weight of two dimensions.
inline RectangleScales rectangles_of(const ScaleGrid& grid, const std::string& name) {
  return {name, grid.rows, grid.columns, grid.n_rows, grid.n_columns};
}

/// The grid of a tensor of scales, by its shape: one for all, one a row or a column, groups along a row, or blocks of a
/// size that the facts name; for experts with their number in front, or one for all of an expert. Throws Error naming
/// the tensor when it fits none.
ScaleGrid grid_of(const WeightRequest& request, const TensorInfo& scales, std::string_view format);

/// A tensor of F32, BF16, F16, F8_E4M3 or (as powers of two) U8 and F8_E8M0 as floats. Throws Error naming the tensor
/// when one is not finite.
std::vector<float> read_scales(const Checkpoint& checkpoint, const std::string& name);

/// What a device needs to decode rows of such codes, which a tensor of the checkpoint holds one after the other.
WeightCodes codes_of(const Checkpoint& checkpoint, const ScaleGrid& grid, WeightCode code, const std::string& name,
                     const std::string& scales_name);

/// The group of every column: the tensor `name` (g_idx), or columns / group_size when the name is empty. Throws Error
/// naming the tensor when one is not below n_groups.
std::vector<int64_t> read_groups(const Checkpoint& checkpoint, const std::string& name, int64_t columns,
                                 int64_t group_size, int64_t n_groups);

/// ModelOpt's pre_quant_scale (AWQ, SmoothQuant): a factor for every input, which servers multiply the activations by
/// and which is a part of the weight here.
struct InputFactors {
  std::string name;                                             // "" when there is none
  std::vector<float> read(const Checkpoint& checkpoint) const;  // [in], or empty
};
InputFactors find_input_factors(const WeightRequest& request, StoredWeight& stored);

/// to = round(value(row, column) · inputs[column] · scale) for the given rows; without inputs no factor.
template <class Value>
void write_scaled(const ScaleGrid& grid, const std::vector<float>& scales, const std::vector<float>& inputs,
                  WeightRows rows, bf16* to, Value value) {
  for (int64_t r = rows.first; r < rows.first + rows.n; ++r)
    for (int64_t begin = 0; begin < grid.in; begin += grid.columns) {
      const float scale = scales[static_cast<size_t>(grid.index(r, begin))];
      const int64_t end = std::min(begin + grid.columns, grid.in);
      if (inputs.empty()) {
        for (int64_t c = begin; c < end; ++c) *to++ = to_bf16(value(r, c) * scale);
      } else {
        for (int64_t c = begin; c < end; ++c) *to++ = to_bf16(value(r, c) * inputs[static_cast<size_t>(c)] * scale);
      }
    }
}

}  // namespace kvcal
