// One byte an element, with scales: FP8 (per tensor, row, group or block; fp8, compressed-tensors, ModelOpt), MXFP8
// (E8M0 scales of 32) and INT8 with or without zero points (docs/model-notes.md, "Stored weights").
#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"
#include "tensor/small_floats.h"

namespace kvcal {
namespace {

std::string scales_of(const WeightRequest& request) {
  // DeepSeek's name is the inverse of what it holds: both are multiplied.
  const std::string inverse = request.beside("_scale_inv");
  return request.checkpoint.has(inverse) ? inverse : request.beside("_scale");
}

/// The value of every byte.
std::array<float, 256> values_of(DType dtype) {
  if (dtype == DType::F8E4M3) return e4m3_values();
  if (dtype == DType::F8E5M2) return e5m2_values();
  std::array<float, 256> values{};
  for (size_t code = 0; code < 256; ++code) values[code] = static_cast<float>(static_cast<int8_t>(code));
  return values;
}

WeightCode code_of(DType dtype) {
  if (dtype == DType::I8) return WeightCode::Int8;
  return dtype == DType::F8E4M3 ? WeightCode::E4M3 : WeightCode::E5M2;
}

}  // namespace

std::optional<StoredWeight> find_one_byte(const WeightRequest& request) {
  const TensorInfo* found = find_typed(request, request.name, {DType::F8E4M3, DType::F8E5M2, DType::I8});
  if (!found) return std::nullopt;
  const std::string_view format = found->dtype == DType::I8 ? "INT8" : "FP8";
  check_shape(request, *found, request.shape, format);
  const std::string scales_name = scales_of(request);
  const ScaleGrid grid = grid_of(request, need_companion(request, scales_name, format), format);
  StoredWeight stored{format, {request.name, scales_name}, {}, rectangles_of(grid, scales_name)};
  std::string zeros_name;
  const bool integers = found->dtype == DType::I8;
  const std::string beside = request.beside("_zero_point");
  if (const TensorInfo* zeros = integers ? find_part(request, beside, {DType::I8}, request.facts.zero_points, format)
                                         : find_typed(request, beside, {DType::I8})) {
    zeros_name = zeros->name;
    check_shape(request, *zeros, request.checkpoint.find(scales_name)->shape, format);
    stored.parts.push_back(zeros_name);
  }
  const InputFactors inputs = find_input_factors(request, stored);
  if (const TensorInfo* order = request.checkpoint.find(request.beside("_g_idx")))
    fail("weight " + quoted(request.name) + " is stored as " + std::string(format) +
         " with groups of columns in an order, " + quoted(order->name) +
         ", which is not read; use the BF16 checkpoint that it was made from");
  stored.open = [&checkpoint = request.checkpoint, grid, inputs, name = request.name, scales_name,
                 zeros_name]() -> DecodeRows {
    const Tensor weight = checkpoint.tensor(name);
    const auto* bytes = static_cast<const uint8_t*>(weight.data);
    const int8_t* zeros = zeros_name.empty() ? nullptr : checkpoint.tensor(zeros_name).as<int8_t>();
    return [grid, bytes, zeros, values = values_of(weight.dtype), scales = read_scales(checkpoint, scales_name),
            factors = inputs.read(checkpoint)](WeightRows rows, bf16* to) {
      const auto value = [&](int64_t r, int64_t c) { return values[bytes[r * grid.in + c]]; };
      if (!zeros) return write_scaled(grid, scales, factors, rows, to, value);
      write_scaled(grid, scales, factors, rows, to,
                   [&](int64_t r, int64_t c) { return value(r, c) - static_cast<float>(zeros[grid.index(r, c)]); });
    };
  };
  if (zeros_name.empty() && inputs.name.empty())
    stored.codes = [&checkpoint = request.checkpoint, grid, code = code_of(found->dtype), name = request.name,
                    scales_name] { return codes_of(checkpoint, grid, code, name, scales_name); };
  return stored;
}

}  // namespace kvcal
