// compressed-tensors "pack-quantized": integers of 1 to 8 bits as one stream of bits in words of 32, lowest bits first,
// along the rows; zero points likewise along the columns.
#include "base/error.h"
#include "checkpoint/formats/bit_stream.h"
#include "checkpoint/formats/scale_grid.h"

namespace kvcal {
namespace {

constexpr std::string_view kFormat = "pack-quantized";

/// Bits of an element, from how many words n of them take: of those in config.json, or of any where it has none; few
/// elements leave a choice, then what is usual goes first. What fits none is taken for the first, to be refused.
int bits_by_words(const QuantizationFacts& facts, int64_t words, int64_t n) {
  const std::vector<int> usual = {4, 8, 2, 3, 5, 6, 7, 1};
  const std::vector<int>& choice = facts.bits.empty() ? usual : facts.bits;
  for (const int bits : choice)
    if (words_for(n, bits) == words) return bits;
  return choice.front();
}

Shape with_experts(const WeightRequest& request, int64_t rows, int64_t columns) {
  return request.shape.rank() == 3 ? Shape{request.experts(), rows, columns} : Shape{rows, columns};
}

struct Names {
  std::string packed, scales, zeros, order;  // the last two may be empty
};

DecodeRows open(const Checkpoint& checkpoint, const ScaleGrid& grid, int bits, const Names& names) {
  const auto words_of = [&](const std::string& name) {
    return static_cast<const uint32_t*>(name.empty() ? nullptr : checkpoint.tensor(name).data);
  };
  const uint32_t *words = words_of(names.packed), *zeros = words_of(names.zeros);
  const int64_t row_words = words_for(grid.in, bits), expert_zeros = words_for(grid.n_rows, bits) * grid.n_columns;
  return [=, scales = read_scales(checkpoint, names.scales),
          groups = read_groups(checkpoint, names.order, grid.in, grid.columns, grid.n_columns)](WeightRows rows,
                                                                                                bf16* to) {
    for (int64_t r = rows.first; r < rows.first + rows.n; ++r) {
      const int64_t expert = r / grid.out, scale_row = r % grid.out / grid.rows;
      const float* row_scales = scales.data() + (expert * grid.n_rows + scale_row) * grid.n_columns;
      for (int64_t c = 0; c < grid.in; ++c) {
        const int64_t g = groups[static_cast<size_t>(c)];
        // Both are stored with half of the range added; a symmetric weight has its zero point there.
        const int zero = zeros ? stream_element(zeros + expert * expert_zeros + g, grid.n_columns, scale_row, bits)
                               : 1 << (bits - 1);
        *to++ = to_bf16(static_cast<float>(stream_element(words + r * row_words, 1, c, bits) - zero) * row_scales[g]);
      }
    }
  };
}

}  // namespace

std::optional<StoredWeight> find_pack_quantized(const WeightRequest& request) {
  const TensorInfo* packed = find_typed(request, request.beside("_packed"), {DType::I32});
  if (!packed) return std::nullopt;
  const int64_t out = request.out(), in = request.in();
  const int bits = bits_by_words(request.facts, packed->shape.rank() > 0 ? packed->shape[-1] : 0, in);
  check_shape(request, *packed, with_experts(request, out, words_for(in, bits)), kFormat);
  const TensorInfo& scales = need_companion(request, request.beside("_scale"), kFormat);
  const ScaleGrid grid = grid_of(request, scales, kFormat);
  Names names{packed->name, scales.name, "", ""};
  StoredWeight stored{kFormat, {packed->name, scales.name}, {}, rectangles_of(grid, scales.name)};
  check_group_size(request, scales, grid.columns, kFormat);
  if (const TensorInfo* zeros =
          find_part(request, request.beside("_zero_point"), {DType::I32}, request.facts.zero_points, kFormat)) {
    check_shape(request, *zeros, with_experts(request, words_for(grid.n_rows, bits), grid.n_columns), kFormat);
    stored.parts.push_back(names.zeros = zeros->name);
  }
  if (const TensorInfo* order = find_part(request, request.beside("_g_idx"), {DType::I32, DType::I64},
                                          request.facts.ordered && grid.n_columns > 1, kFormat)) {
    check_shape(request, *order, {in}, kFormat);
    stored.parts.push_back(names.order = stored.scales.order = order->name);
  }
  if (request.checkpoint.has(request.beside("_shape"))) stored.parts.push_back(request.beside("_shape"));
  stored.open = [&checkpoint = request.checkpoint, grid, bits, names] { return open(checkpoint, grid, bits, names); };
  if (names.zeros.empty() && names.order.empty() && (bits == 4 || bits == 8))
    stored.codes = [&checkpoint = request.checkpoint, grid, names,
                    code = bits == 4 ? WeightCode::Uint4Less8 : WeightCode::Uint8Less128] {
      return codes_of(checkpoint, grid, code, names.packed, names.scales);
    };
  return stored;
}

}  // namespace kvcal
