#include "model/towers/patch_rows.h"

#include <algorithm>
#include <cmath>

#include "tensor/dtype.h"

namespace kvcal {

std::vector<int32_t> PatchRows::positions() const {
  std::vector<int32_t> all(2 * places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    all[i] = static_cast<int32_t>(places[i].row);
    all[places.size() + i] = static_cast<int32_t>(places[i].column);
  }
  return all;
}

PatchRows whole_picture(const PatchGrid& grid, int64_t merge) {
  PatchRows rows;
  for (int64_t i = 0; i < grid.n_patches(); ++i) rows.places.push_back(place_of(i, grid, merge));
  rows.spans = {{0, grid.n_patches(), 0}};
  return rows;
}

Tensor attend_within(Ops& op, std::span<const Tensor> qkv, std::span<const Span> spans, std::optional<float> scale) {
  const int64_t n = qkv[0].dim(0), heads = qkv[0].dim(1), d = qkv[0].dim(2);
  std::vector<int32_t> last;
  for (const Span& s : spans)
    last.insert(last.end(), static_cast<size_t>(s.n_tokens), static_cast<int32_t>(s.n_tokens - 1));
  const std::vector<KvRows*> kept(spans.size());
  AttentionSpec attention;
  attention.scale = scale.value_or(1.0f / std::sqrt(static_cast<float>(d)));
  attention.last_keys = last;
  return op.attention(qkv[0], qkv[1], qkv[2], spans, kept, attention).reshaped({n, heads * d});
}

std::vector<float> on_host(Ops& op, const Tensor& x) {
  const Storage stored(x.shape, x.dtype);
  op.download(x, stored.tensor());
  std::vector<float> values(static_cast<size_t>(x.elements()));
  convert_to_float(x.dtype, stored.tensor().data, values.data(), values.size());
  return values;
}

Tensor on_device(Ops& op, std::span<const float> values, const Shape& shape) {
  const Storage stored(shape, op.activation_dtype());
  if (stored.tensor().dtype == DType::F32) {
    std::ranges::copy(values, stored.tensor().as<float>());
  } else {
    convert_to_bf16(DType::F32, values.data(), stored.tensor().as<bf16>(), values.size());
  }
  return op.upload(stored.tensor());
}

Tensor mean_of_rows(Ops& op, const Tensor& x, int64_t n) {
  const size_t hidden = static_cast<size_t>(x.dim(1));
  const std::vector<float> all = on_host(op, x);
  std::vector<float> means(all.size() / static_cast<size_t>(n));
  for (size_t row = 0; row < static_cast<size_t>(x.dim(0)); ++row)
    for (size_t c = 0; c < hidden; ++c) means[row / static_cast<size_t>(n) * hidden + c] += all[row * hidden + c];
  for (float& value : means) value /= static_cast<float>(n);
  return on_device(op, means, {x.dim(0) / n, x.dim(1)});
}

}  // namespace kvcal
