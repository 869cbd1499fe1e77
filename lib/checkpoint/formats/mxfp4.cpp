// MXFP4: E2M1 values, two to a byte, low half first, with a power of two for 32 columns. compressed-tensors has it as
// weight_packed and weight_scale; gpt-oss as NAME_blocks [.., in / 32, 16] and NAME_scales; ModelOpt and Quark as
// weight and weight_scale.
#include "checkpoint/formats/scale_grid.h"
#include "tensor/small_floats.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "MXFP4";
constexpr int64_t kGroup = 32;

/// The weight's shape with its columns divided, and 16 bytes for each group when there is a fourth extent.
Shape columns_divided(const WeightRequest& request, int64_t by, bool blocks = false) {
  std::vector<int64_t> extents;
  if (request.shape.rank() == 3) extents.push_back(request.experts());
  extents.push_back(request.out());
  extents.push_back(request.in() / by);
  if (blocks) extents.push_back(kGroup / 2);
  return Shape(extents);
}

}  // namespace

std::optional<StoredWeight> find_mxfp4(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.beside("_packed"), {DType::U8});
  const TensorInfo* blocks = find_typed(request, request.beside("_blocks"), {DType::U8});
  // Bytes by the plain name may be anything: their scales tell.
  if (!packed && !blocks && find_typed(request, request.beside("_scale"), {DType::U8, DType::F8E8M0}))
    packed = find_typed(request, request.name, {DType::U8});
  if ((!packed && !blocks) || request.in() % kGroup) return std::nullopt;
  const std::string scales_name = request.beside(blocks ? "_scales" : "_scale");
  const TensorInfo& found = blocks ? *blocks : *packed;
  check_shape(request, found, columns_divided(request, blocks ? kGroup : 2, blocks != nullptr), kFormat);
  check_shape(request, need_companion(request, scales_name, kFormat), columns_divided(request, kGroup), kFormat);
  const ScaleGrid grid{request.out(), request.in(), 1, kGroup, request.out(), request.in() / kGroup};
  StoredWeight stored{kFormat, {found.name, scales_name}, {}, rectangles_of(grid, scales_name)};
  const InputFactors inputs = find_input_factors(request, stored);
  stored.open = [&checkpoint = request.checkpoint, grid, inputs, name = found.name, scales_name]() -> DecodeRows {
    const auto* bytes = static_cast<const uint8_t*>(checkpoint.tensor(name).data);
    return [grid, bytes, scales = read_scales(checkpoint, scales_name), factors = inputs.read(checkpoint)](
               WeightRows rows, bf16* to) {
      write_scaled(grid, scales, factors, rows, to,
                   [&](int64_t r, int64_t c) { return e2m1_at(bytes, r * grid.in + c); });
    };
  };
  if (inputs.name.empty())
    stored.codes = [&checkpoint = request.checkpoint, grid, name = found.name, scales_name] {
      return codes_of(checkpoint, grid, WeightCode::E2M1, name, scales_name);
    };
  return stored;
}

}  // namespace kvcal
