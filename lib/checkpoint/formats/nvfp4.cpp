// NVFP4: E2M1 values, two to a byte, low half first; E4M3 scales of 16 columns, and one f32 scale for all: divided by
// in compressed-tensors (weight_global_scale), multiplied by in ModelOpt (weight_scale_2) (docs/model-notes.md, "Stored
// weights").
#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"
#include "tensor/small_floats.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "NVFP4";
constexpr int64_t kGroup = 16;

/// The weight's shape with its columns divided.
Shape columns_divided(const WeightRequest& request, int64_t by) {
  return request.shape.rank() == 3 ? Shape{request.experts(), request.out(), request.in() / by}
                                   : Shape{request.out(), request.in() / by};
}

/// ModelOpt's W4A8_NVFP4_FP8 has groups twice as long.
int64_t group_of(const TensorInfo& scales, int64_t in) {
  return scales.shape.rank() > 0 && scales.shape[-1] * 2 * kGroup == in ? 2 * kGroup : kGroup;
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

WeightCodes codes_with_global(const Checkpoint& checkpoint, const ScaleGrid& grid, const StoredWeight& stored,
                              bool divide) {
  WeightCodes codes = codes_of(checkpoint, grid, WeightCode::E2M1, stored.parts[0], stored.parts[1]);
  codes.global = [&checkpoint, name = stored.parts[2]](int64_t expert) {
    const std::vector<float> factors = read_scales(checkpoint, name);
    return factors[factors.size() == 1 ? 0 : static_cast<size_t>(expert)];
  };
  codes.divided = divide;
  return codes;
}

/// ModelOpt's experts of Llama 4: packed along the inputs as all others, then laid as [experts, in / 2, out] with
/// scales [experts, in / 16, out].
bool is_turned(const WeightRequest& request, const TensorInfo& packed, const TensorInfo& scales) {
  return request.shape.rank() == 3 && request.in() >= kGroup &&
         packed.shape == Shape{request.experts(), request.in() / 2, request.out()} &&
         scales.shape == Shape{request.experts(), request.in() / kGroup, request.out()};
}

/// [experts, a, b] as [experts, b, a].
std::vector<float> turned(const std::vector<float>& from, int64_t a, int64_t b) {
  std::vector<float> to(from.size());
  const int64_t each = a * b;
  for (int64_t i = 0; i < static_cast<int64_t>(from.size()); ++i)
    to[static_cast<size_t>(i / each * each + i % b * a + i % each / b)] = from[static_cast<size_t>(i)];
  return to;
}

}  // namespace

std::optional<StoredWeight> find_nvfp4(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.beside("_packed"), {DType::U8});
  const bool divide = packed != nullptr;  // compressed-tensors
  if (!packed) packed = find_typed(request, request.name, {DType::U8});
  const std::string global_name = request.beside(divide ? "_global_scale" : "_scale_2");
  // Either of its scales tells it from other formats with two values to a byte.
  const std::string scales_name = request.beside("_scale");
  if (!packed || !(request.checkpoint.has(global_name) || find_typed(request, scales_name, {DType::F8E4M3})))
    return std::nullopt;
  if (request.in() % kGroup) return std::nullopt;
  const TensorInfo& scales = need_companion(request, scales_name, kFormat);
  const bool turn = is_turned(request, *packed, scales);
  if (!turn) check_shape(request, *packed, columns_divided(request, 2), kFormat);
  const int64_t in = request.in(), group = group_of(scales, in);
  if (!turn) check_shape(request, scales, columns_divided(request, group), kFormat);
  if (!turn) check_group_size(request, scales, group, kFormat);
  const ScaleGrid grid{request.out(), in, 1, group, request.out(), in / group};
  const TensorInfo& global = need_companion(request, global_name, kFormat);
  if (const int64_t n = global.shape.elements(); n != 1 && n != request.experts())
    check_shape(request, global, {request.experts()}, kFormat);
  StoredWeight stored{kFormat, {packed->name, scales.name, global_name}, {}, rectangles_of(grid, scales_name)};
  const InputFactors inputs = find_input_factors(request, stored);
  stored.open = [&checkpoint = request.checkpoint, grid, divide, turn, inputs, packed = packed->name, scales_name,
                 global_name]() -> DecodeRows {
    const auto* bytes = static_cast<const uint8_t*>(checkpoint.tensor(packed).data);
    std::vector<float> joined = joined_scales(checkpoint, scales_name, global_name, divide);
    if (turn) joined = turned(joined, grid.n_columns, grid.n_rows);
    return [grid, bytes, turn, joined, factors = inputs.read(checkpoint)](WeightRows rows, bf16* to) {
      if (!turn)
        return write_scaled(grid, joined, factors, rows, to,
                            [&](int64_t r, int64_t c) { return e2m1_at(bytes, r * grid.in + c); });
      write_scaled(grid, joined, factors, rows, to, [&](int64_t r, int64_t c) {
        const int64_t byte = (r / grid.out * (grid.in / 2) + c / 2) * grid.out + r % grid.out;
        return e2m1_at(bytes, 2 * byte + c % 2);
      });
    };
  };
  if (!turn && inputs.name.empty())
    stored.codes = [&checkpoint = request.checkpoint, grid, divide, stored] {
      return codes_with_global(checkpoint, grid, stored, divide);
    };
  return stored;
}

}  // namespace kvcal
