// GPTQ: values of 2 to 8 bits stored transposed, [in · bits / 32, out], packed along the inputs; zero points packed
// along the outputs, less one in the first version; groups in any order by g_idx (docs/model-notes.md, "Stored
// weights"). AutoRound writes the same.
#include "base/error.h"
#include "checkpoint/formats/bit_stream.h"
#include "checkpoint/formats/scale_grid.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "GPTQ";

/// Bits of an element by the number of words along the inputs.
int bits_of_rows(const WeightRequest& request, const TensorInfo& packed) {
  for (int bits = 2; bits <= 8; ++bits)
    if (packed.shape[0] * 32 == request.in() * bits) return bits;
  check_shape(request, packed, {request.in() * 4 / 32, request.out()}, kFormat);
  return 4;
}

/// Inputs of a group where g_idx does not say it. The last group may be cut off, and then config.json has the size.
int64_t group_size(const WeightRequest& request, const TensorInfo& scales) {
  const int64_t in = request.in(), n_groups = scales.shape[0];
  for (const int64_t size : request.facts.group_sizes)
    if ((in + size - 1) / size == n_groups) return size;
  if (in % n_groups == 0) return in / n_groups;
  fail("weight " + quoted(request.name) + " " + str(request.shape) + " is stored as GPTQ, but its scales " +
       quoted(scales.name) + " are " + str(scales) +
       ": no groups of equal size along the inputs, nor of the group_size in config.json");
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
  const TensorInfo& zeros = *find_part(request, request.module("qzeros"), {DType::I32}, true, kFormat);
  check_shape(request, zeros, {n_groups, words_for(out, bits)}, kFormat);
  StoredWeight stored{kFormat, {packed->name, scales.name, zeros.name}, {}};
  std::string order_name;
  if (const TensorInfo* order = find_part(request, request.module("g_idx"), {DType::I32, DType::I64},
                                          request.facts.ordered && n_groups > 1, kFormat)) {
    check_shape(request, *order, {in}, kFormat);
    stored.parts.push_back(order_name = order->name);
  }
  const int64_t group = order_name.empty() ? group_size(request, scales) : in;
  check_group_size(request, scales, group, kFormat);
  stored.scales = {scales.name, 1, group, out, n_groups, /*inputs_first=*/true, order_name};
  const int added = request.facts.zeros_less_one ? 1 : 0;
  stored.open = [&checkpoint = request.checkpoint, out, in, bits, group, n_groups, added, packed = packed->name,
                 scales_name = scales.name, zeros_name = zeros.name, order_name]() -> DecodeRows {
    const auto* words = static_cast<const uint32_t*>(checkpoint.tensor(packed).data);
    const auto* zero_words = static_cast<const uint32_t*>(checkpoint.tensor(zeros_name).data);
    return [=, factors = read_scales(checkpoint, scales_name),
            groups = read_groups(checkpoint, order_name, in, group, n_groups)](WeightRows rows, bf16* to) {
      const int64_t zero_row = words_for(out, bits);
      for (int64_t k = 0; k < in; ++k)
        for (int64_t i = 0; i < rows.n; ++i) {
          const int64_t n = rows.first + i, g = groups[static_cast<size_t>(k)];
          const int zero = stream_element(zero_words + g * zero_row, 1, n, bits) + added;
          to[i * in + k] = to_bf16(static_cast<float>(stream_element(words + n, out, k, bits) - zero) *
                                   factors[static_cast<size_t>(g * out + n)]);
        }
    };
  };
  return stored;
}

}  // namespace kvcal
