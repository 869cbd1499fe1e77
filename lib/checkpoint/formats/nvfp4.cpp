// NVFP4: E2M1 values, two to a byte, low half first; E4M3 scales of 16 columns, and one f32 scale for all: divided by
// in compressed-tensors (weight_global_scale), multiplied by in ModelOpt (weight_scale_2) (architectures.md 8.3, 8.4).
#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"
#include "tensor/small_floats.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "NVFP4";

Shape halved(const WeightRequest& request) {
  return request.shape.rank() == 3 ? Shape{request.experts(), request.out(), request.in() / 2}
                                   : Shape{request.out(), request.in() / 2};
}

/// Scales of the groups with the global one in them. One global scale, or one for each expert.
std::vector<float> joined_scales(const Checkpoint& checkpoint, const std::string& groups, const std::string& global,
                                 bool divide) {
  std::vector<float> scales = read_scales(checkpoint, groups);
  const std::vector<float> factors = read_scales(checkpoint, global);
  const size_t each = scales.size() / factors.size();
  for (size_t i = 0; i < scales.size(); ++i)
    scales[i] = divide ? scales[i] / factors[i / each] : scales[i] * factors[i / each];
  return scales;
}

}  // namespace

std::optional<StoredWeight> find_nvfp4(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.beside("_packed"), {DType::U8});
  const bool divide = packed != nullptr;  // compressed-tensors
  if (!packed) packed = find_typed(request, request.name, {DType::U8});
  const std::string global_name = request.beside(divide ? "_global_scale" : "_scale_2");
  if (!packed || !request.checkpoint.has(global_name)) return std::nullopt;
  if (request.in() % 2) return std::nullopt;
  check_shape(request, *packed, halved(request), kFormat);
  const TensorInfo& scales = need_companion(request, request.beside("_scale"), kFormat);
  const ScaleGrid grid = grid_of(request, scales, kFormat);
  const TensorInfo& global = need_companion(request, global_name, kFormat);
  if (const int64_t n = global.shape.elements(); n != 1 && n != request.experts())
    check_shape(request, global, {request.experts()}, kFormat);
  StoredWeight stored{kFormat, {packed->name, scales.name, global_name}, {}};
  // ModelOpt's AWQ variant: a factor for every input, which servers multiply the activations by.
  std::string input_name;
  if (const TensorInfo* input = request.checkpoint.find(request.module("pre_quant_scale"))) {
    check_shape(request, *input, {request.in()}, kFormat);
    stored.parts.push_back(input_name = input->name);
  }
  stored.open = [&checkpoint = request.checkpoint, grid, divide, packed = packed->name, scales_name = scales.name,
                 global_name, input_name]() -> DecodeRows {
    const auto* bytes = static_cast<const uint8_t*>(checkpoint.tensor(packed).data);
    std::vector<float> input;
    if (!input_name.empty()) input = read_scales(checkpoint, input_name);
    return [grid, bytes, input, joined = joined_scales(checkpoint, scales_name, global_name, divide)](WeightRows rows,
                                                                                                      bf16* to) {
      const auto value = [&](int64_t r, int64_t c) { return e2m1_at(bytes, r * grid.in + c); };
      if (input.empty()) return write_scaled(grid, joined, rows, to, value);
      write_scaled(grid, joined, rows, to,
                   [&](int64_t r, int64_t c) { return value(r, c) * input[static_cast<size_t>(c)]; });
    };
  };
  return stored;
}

}  // namespace kvcal
