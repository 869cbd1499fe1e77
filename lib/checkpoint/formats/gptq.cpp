// GPTQ: values of 2, 4 or 8 bits stored transposed, [in · bits / 32, out], packed along the inputs; zero points packed
// along the outputs, less one in the first version; groups in any order by g_idx (architectures.md 8.6).
#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "GPTQ";

/// Bits of an element by the number of words along the inputs. Throws Error for 3 bits, whose elements straddle words.
int bits_of_rows(const WeightRequest& request, const TensorInfo& packed) {
  for (const int bits : {4, 8, 2})
    if (request.in() * bits % 32 == 0 && packed.shape[0] == request.in() * bits / 32) return bits;
  if (packed.shape[0] * 32 == request.in() * 3)
    fail("weight " + quoted(request.name) +
         " is stored as GPTQ with 3 bits, which is not read; use a checkpoint with 4 "
         "or 8 bits, or the BF16 one");
  check_shape(request, packed, {request.in() * 4 / 32, request.out()}, kFormat);
  return 4;
}

}  // namespace

std::optional<StoredWeight> find_gptq(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.module("qweight"), {DType::I32});
  const int64_t out = request.out(), in = request.in();
  if (!packed || request.shape.rank() != 2 || packed->shape.rank() != 2) return std::nullopt;
  const int bits = bits_of_rows(request, *packed);
  check_shape(request, *packed, {in * bits / 32, out}, kFormat);
  const TensorInfo& scales = need_companion(request, request.module("scales"), kFormat);
  const int64_t n_groups = scales.shape.rank() == 2 ? scales.shape[0] : 0;
  check_shape(request, scales, {std::max<int64_t>(n_groups, 1), out}, kFormat);
  const TensorInfo& zeros = need_companion(request, request.module("qzeros"), kFormat);
  check_shape(request, zeros, {n_groups, (out * bits + 31) / 32}, kFormat);
  StoredWeight stored{kFormat, {packed->name, scales.name, zeros.name}, {}};
  std::string order_name;
  if (const TensorInfo* order = find_typed(request, request.module("g_idx"), {DType::I32, DType::I64})) {
    check_shape(request, *order, {in}, kFormat);
    stored.parts.push_back(order_name = order->name);
  }
  const uint32_t added = request.facts.zeros_less_one ? 1 : 0;
  stored.open = [&checkpoint = request.checkpoint, out, in, bits, n_groups, added, packed = packed->name,
                 scales_name = scales.name, zeros_name = zeros.name, order_name]() -> DecodeRows {
    const auto* words = static_cast<const uint32_t*>(checkpoint.tensor(packed).data);
    const auto* zero_words = static_cast<const uint32_t*>(checkpoint.tensor(zeros_name).data);
    return [=, factors = read_scales(checkpoint, scales_name),
            groups = read_groups(checkpoint, order_name, in, (in + n_groups - 1) / n_groups, n_groups)](WeightRows rows,
                                                                                                        bf16* to) {
      const int64_t per_word = 32 / bits, zero_row = (out * bits + 31) / 32;
      const uint32_t mask = (1u << bits) - 1;
      for (int64_t k = 0; k < in; ++k)
        for (int64_t i = 0; i < rows.n; ++i) {
          const int64_t n = rows.first + i, g = groups[static_cast<size_t>(k)];
          const uint32_t q = words[k / per_word * out + n] >> (k % per_word * bits) & mask;
          const uint32_t zero = (zero_words[g * zero_row + n / per_word] >> (n % per_word * bits) & mask) + added;
          to[i * in + k] = to_bf16(static_cast<float>(static_cast<int>(q) - static_cast<int>(zero)) *
                                   factors[static_cast<size_t>(g * out + n)]);
        }
    };
  };
  return stored;
}

}  // namespace kvcal
