// The row of latent attention, [latent | rope part], whose parts can be balanced against each other: the gain of the
// latent's norm against columns of kv_b_proj, rows that make the rope part against those of the queries.
#include "fold/site_fold.h"

namespace kvcal {
namespace {

int64_t rope_dim(const KvLayout& s) { return s.head_dim_k - s.latent_dim; }

/// Rows [offset, offset + values.size()) of each of n groups of `group` rows get the values, others 0.
std::vector<int> in_groups(int64_t n, int64_t group, int64_t offset, const std::vector<int>& values) {
  std::vector<int> all(static_cast<size_t>(n * group), 0);
  for (int64_t g = 0; g < n; ++g)
    for (size_t i = 0; i < values.size(); ++i) all[static_cast<size_t>(g * group + offset) + i] = values[i];
  return all;
}

Folded fold_latent(const FoldedCache& cache, const std::vector<int>& exponents) {
  const KvLayout& s = cache.layout;
  const LayerSpec& layer = cache.owner();
  const int64_t rows = s.n_heads * (layer.attention.nope + layer.attention.value_dim);
  const std::vector<std::function<Folded()>> steps = {
      [&] { return cache.folder.fold_gain(cache.module(layer, "kv_a_layernorm.weight"), exponents); },
      [&] {
        return cache.folder.fold(
            {cache.module(layer, "kv_b_proj"), rows, s.latent_dim, Axis::Columns, inverse(exponents)});
      }};
  return all_of(steps);
}

Folded fold_queries(const FoldedCache& cache, std::vector<int> exponents) {
  const LayerSpec& layer = cache.owner();
  const int64_t inputs = layer.attention.query_inputs > 0 ? layer.attention.query_inputs : cache.spec.hidden;
  const auto rows = static_cast<int64_t>(exponents.size());
  return cache.folder.fold(
      {cache.module(layer, layer.attention.query), rows, inputs, Axis::Rows, std::move(exponents)});
}

Folded fold_rope_rows(const FoldedCache& cache, const std::vector<int>& exponents) {
  const KvLayout& s = cache.layout;
  return cache.folder.fold({cache.module(cache.owner(), "kv_a_proj_with_mqa"), s.head_dim_k, cache.spec.hidden,
                            Axis::Rows, in_groups(1, s.head_dim_k, s.latent_dim, exponents)});
}

/// Of the queries only the rows that meet the rope part.
Folded fold_rope_alone(const FoldedCache& cache, const std::vector<int>& exponents) {
  const KvLayout& s = cache.layout;
  const int64_t nope = cache.owner().attention.nope;
  const std::vector<std::function<Folded()>> steps = {
      [&] { return fold_rope_rows(cache, exponents); },
      [&] { return fold_queries(cache, in_groups(s.n_heads, nope + rope_dim(s), nope, inverse(exponents))); }};
  return all_of(steps);
}

/// Where one scale serves rows of both kinds (blocks of 128 over heads of 192): all of the queries, and the rows that
/// make the other part of the keys from the latent.
Folded fold_with_whole_queries(const FoldedCache& cache, const std::vector<int>& exponents) {
  const KvLayout& s = cache.layout;
  const AttentionTensors& t = cache.owner().attention;
  const int e = exponents.front();
  const std::vector<std::function<Folded()>> steps = {
      [&] { return fold_rope_rows(cache, exponents); },
      [&] {
        return fold_queries(cache, std::vector<int>(static_cast<size_t>(s.n_heads * (t.nope + rope_dim(s))), -e));
      },
      [&] {
        const std::vector<int> keys(static_cast<size_t>(t.nope), e);
        return cache.folder.fold({cache.module(cache.owner(), "kv_b_proj"), s.n_heads * (t.nope + t.value_dim),
                                  s.latent_dim, Axis::Rows, in_groups(s.n_heads, t.nope + t.value_dim, 0, keys)});
      }};
  return all_of(steps);
}

Folded fold_rope(const FoldedCache& cache, const std::vector<int>& exponents) {
  Folded alone = fold_rope_alone(cache, exponents);
  const bool equal = exponents == std::vector<int>(exponents.size(), exponents.front());
  if (alone.obstacle.empty() || !equal) return alone;
  Folded whole = fold_with_whole_queries(cache, exponents);
  return whole.obstacle.empty() ? whole : alone;
}

}  // namespace

SiteWeights latent_weights(const FoldedCache& cache) {
  SiteWeights weights;
  weights.fold = [cache](const std::vector<int>& exponents) { return fold_latent(cache, exponents); };
  return weights;
}

SiteWeights rope_weights(const FoldedCache& cache) {
  SiteWeights weights;
  weights.limits.pairs_together = cache.layout.rotary_dim > 0;
  weights.fold = [cache](const std::vector<int>& exponents) { return fold_rope(cache, exponents); };
  return weights;
}

}  // namespace kvcal
