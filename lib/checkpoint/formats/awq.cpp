// AWQ (gemm version): 4-bit values stored transposed, [in, out / 8], eight outputs to a word in the order 0 2 4 6 1 3 5
// 7, with zero points packed alike.
#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "AWQ";
constexpr int64_t kPerWord = 8;
constexpr std::array<int, kPerWord> kShiftOfOutput = {0, 16, 4, 20, 8, 24, 12, 28};  // of output 8 w + i

}  // namespace

std::optional<StoredWeight> find_awq(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.module("qweight"), {DType::I32});
  const int64_t out = request.out(), in = request.in();
  // GPTQ has the same names, and packs the other dimension.
  if (!packed || request.shape.rank() != 2 || out % kPerWord || packed->shape != Shape{in, out / kPerWord})
    return std::nullopt;
  const TensorInfo& scales = need_companion(request, request.module("scales"), kFormat);
  const int64_t n_groups = scales.shape.rank() == 2 ? scales.shape[0] : 0;
  if (n_groups < 1 || in % n_groups)
    fail("weight " + quoted(request.name) + " " + str(request.shape) + " is stored as AWQ, but its scales " +
         quoted(scales.name) + " are " + str(scales) + ": no groups of equal size along the inputs");
  check_shape(request, scales, {n_groups, out}, kFormat);
  check_group_size(request, scales, in / n_groups, kFormat);
  const TensorInfo& zeros = *find_part(request, request.module("qzeros"), {DType::I32}, true, kFormat);
  check_shape(request, zeros, {n_groups, out / kPerWord}, kFormat);
  const auto open = [&checkpoint = request.checkpoint, out, in, group = in / n_groups, packed = packed->name,
                     scales_name = scales.name, zeros_name = zeros.name]() -> DecodeRows {
    const auto* words = static_cast<const uint32_t*>(checkpoint.tensor(packed).data);
    const auto* zero_words = static_cast<const uint32_t*>(checkpoint.tensor(zeros_name).data);
    return [=, factors = read_scales(checkpoint, scales_name)](WeightRows rows, bf16* to) {
      const int64_t row_words = out / kPerWord;
      for (int64_t k = 0; k < in; ++k)
        for (int64_t i = 0; i < rows.n; ++i) {
          const int64_t n = rows.first + i, g = k / group;
          const int shift = kShiftOfOutput[static_cast<size_t>(n % kPerWord)];
          const int q = words[k * row_words + n / kPerWord] >> shift & 15;
          const int zero = zero_words[g * row_words + n / kPerWord] >> shift & 15;
          to[i * in + k] = to_bf16(static_cast<float>(q - zero) * factors[static_cast<size_t>(g * out + n)]);
        }
    };
  };
  return StoredWeight{kFormat,
                      {packed->name, scales.name, zeros.name},
                      open,
                      {scales.name, 1, in / n_groups, out, n_groups, /*inputs_first=*/true}};
}

}  // namespace kvcal
