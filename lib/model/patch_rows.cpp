#include "model/patch_rows.h"

#include <cmath>

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

Tensor attend_within(Ops& op, std::span<const Tensor> qkv, std::span<const Span> spans) {
  const int64_t n = qkv[0].dim(0), heads = qkv[0].dim(1), d = qkv[0].dim(2);
  std::vector<int32_t> last;
  for (const Span& s : spans)
    last.insert(last.end(), static_cast<size_t>(s.n_tokens), static_cast<int32_t>(s.n_tokens - 1));
  const std::vector<KvRows*> kept(spans.size());
  AttentionSpec attention;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(d));
  attention.last_keys = last;
  return op.attention(qkv[0], qkv[1], qkv[2], spans, kept, attention).reshaped({n, heads * d});
}

}  // namespace kvcal
