// Keys and values of grouped-query attention: rows of their projections (or the gain of the keys' norm), against rows
// of the queries' (or their norm's gain) and columns of the output's.
#include <algorithm>

#include "fold/site_fold.h"

namespace kvcal {
namespace {

enum class Part : uint8_t { Query, Key, Value };

/// Rows of a projection that belong to one part: [first + head · stride, + width) of each head.
struct PartRows {
  std::string name;
  int64_t total, first, stride;
};

PartRows rows_of(const LayerSpec& layer, const KvLayout& s, Part part) {
  const AttentionTensors& t = layer.attention;
  const int64_t q = s.n_heads * s.head_dim_k, k = s.n_kv_heads * s.head_dim_k, v = s.n_kv_heads * s.head_dim_v;
  if (t.fused) {
    const int64_t first = part == Part::Query ? 0 : part == Part::Key ? q : q + k;
    return {t.query, q + k + v, first, part == Part::Value ? s.head_dim_v : s.head_dim_k};
  }
  if (part == Part::Query) return {t.query, t.gated ? 2 * q : q, 0, t.gated ? 2 * s.head_dim_k : s.head_dim_k};
  if (part == Part::Key) return {t.key, k, 0, s.head_dim_k};
  return {t.value, v, 0, s.head_dim_v};
}

/// of_head [heads · width] at the rows of their part, 0 at others.
std::vector<int> at_rows(const PartRows& rows, const std::vector<int>& of_head, int64_t width) {
  std::vector<int> all(static_cast<size_t>(rows.total), 0);
  for (size_t i = 0; i < of_head.size(); ++i) {
    const auto head = static_cast<int64_t>(i) / width, channel = static_cast<int64_t>(i) % width;
    all[static_cast<size_t>(rows.first + head * rows.stride + channel)] = of_head[i];
  }
  return all;
}

/// [n_kv_heads · width] -> [n_heads · width]: what each query head's group has.
std::vector<int> for_queries(const std::vector<int>& exponents, const KvLayout& s, int64_t width) {
  std::vector<int> all;
  const int64_t group = s.n_heads / s.n_kv_heads;
  for (int64_t h = 0; h < s.n_heads; ++h) {
    const auto begin = exponents.begin() + h / group * width;
    all.insert(all.end(), begin, begin + width);
  }
  return all;
}

Folded fold_rows(const FoldedCache& cache, const LayerSpec& layer, Part part, const std::vector<int>& exponents) {
  const KvLayout& s = cache.layout;
  const int64_t width = part == Part::Value ? s.head_dim_v : s.head_dim_k;
  const PartRows rows = rows_of(layer, s, part);
  return cache.folder.fold(
      {cache.module(layer, rows.name), rows.total, cache.spec.hidden, Axis::Rows, at_rows(rows, exponents, width)});
}

/// A gain for each channel of a head, which all heads share, or for all channels of all heads.
Folded fold_gain(const FoldedCache& cache, const LayerSpec& layer, const std::string& name,
                 std::vector<int> exponents) {
  const std::string gain = cache.module(layer, name) + ".weight";
  if (cache.folder.elements(gain) == cache.layout.head_dim_k)
    exponents.resize(static_cast<size_t>(cache.layout.head_dim_k));  // equal for all heads
  Folded folded = cache.folder.fold_gain(gain, exponents);
  for (TensorFold& t : folded.tensors) t.one_plus = layer.attention.norm == HeadNorm::OnePlusGain;
  return folded;
}

bool has_shared_gain(const FoldedCache& cache) {
  const auto is_shared = [&](const LayerSpec& layer, const std::string& name) {
    return cache.folder.elements(cache.module(layer, name) + ".weight") == cache.layout.head_dim_k;
  };
  return is_shared(cache.owner(), cache.owner().attention.key_norm) ||
         std::ranges::any_of(cache.readers(),
                             [&](const LayerSpec* l) { return is_shared(*l, l->attention.query_norm); });
}

Folded fold_keys(const FoldedCache& cache, const std::vector<int>& exponents) {
  const bool normed = cache.owner().attention.norm != HeadNorm::None;
  std::vector<std::function<Folded()>> steps = {[&] {
    return normed ? fold_gain(cache, cache.owner(), cache.owner().attention.key_norm, exponents)
                  : fold_rows(cache, cache.owner(), Part::Key, exponents);
  }};
  const std::vector<int> queries = inverse(for_queries(exponents, cache.layout, cache.layout.head_dim_k));
  for (const LayerSpec* reader : cache.readers())
    steps.emplace_back([&cache, &queries, normed, reader] {
      return normed ? fold_gain(cache, *reader, reader->attention.query_norm, queries)
                    : fold_rows(cache, *reader, Part::Query, queries);
    });
  return all_of(steps);
}

Folded fold_values(const FoldedCache& cache, const std::vector<int>& exponents) {
  const KvLayout& s = cache.layout;
  std::vector<std::function<Folded()>> steps = {
      [&] { return fold_rows(cache, cache.owner(), Part::Value, exponents); }};
  const std::vector<int> outputs = inverse(for_queries(exponents, s, s.head_dim_v));
  for (const LayerSpec* reader : cache.readers())
    steps.emplace_back([&cache, &s, &outputs, reader] {
      return cache.folder.fold({cache.module(*reader, reader->attention.output), cache.spec.hidden,
                                s.n_heads * s.head_dim_v, Axis::Columns, outputs});
    });
  return all_of(steps);
}

}  // namespace

SiteWeights key_weights(const FoldedCache& cache) {
  const HeadNorm norm = cache.owner().attention.norm;
  SiteWeights weights;
  if (norm == HeadNorm::NoGain) weights.obstacle = "keys are normed without a gain";
  weights.limits.pairs_together = norm != HeadNorm::GainBehindRope && cache.layout.rotary_dim > 0;
  weights.limits.heads_together = norm != HeadNorm::None && has_shared_gain(cache);
  weights.fold = [cache](const std::vector<int>& exponents) { return fold_keys(cache, exponents); };
  return weights;
}

SiteWeights value_weights(const FoldedCache& cache) {
  SiteWeights weights;
  if (cache.owner().attention.value_normed) weights.obstacle = "values are normed without a gain";
  weights.fold = [cache](const std::vector<int>& exponents) { return fold_values(cache, exponents); };
  return weights;
}

}  // namespace kvcal
