#include "evaluate/rounding_tap.h"

namespace kvcal {
namespace {

/// Nobody writes through it.
Tensor over(const std::vector<float>& scales) {
  Tensor t;
  t.data = const_cast<float*>(scales.data());
  t.shape = {static_cast<int64_t>(scales.size())};
  t.dtype = DType::F32;
  return t;
}

}  // namespace

Tensor RoundingTap::round(const std::optional<SiteRounding>& rounding, const Tensor& x) {
  if (!rounding) return x;
  if (rounding->write.empty()) return op_.round_cache(x, {rounding->format, {}, {}});
  const CacheRounding stored{rounding->format, op_.upload(over(rounding->write)), op_.upload(over(rounding->read))};
  if (rounding->moved == Moved::No) return op_.round_cache(x, stored);
  const auto rows = moved_.try_emplace(&*rounding, *rounding, x.dim(1), x.dim(2), matrices_, op_).first;
  return rows->second.back(op_.round_cache(rows->second.there(x), stored));
}

Tensor RoundingTap::query(int cache, const Tensor& q, const Batch&) { return round(sites(cache).query, q); }
Tensor RoundingTap::key(int cache, const Tensor& k, const Batch&) { return now(sites(cache).key, k); }
Tensor RoundingTap::value(int cache, const Tensor& v, const Batch&) { return now(sites(cache).value, v); }
Tensor RoundingTap::latent(int cache, const Tensor& row, const Batch&) { return now(sites(cache).key, row); }
Tensor RoundingTap::index_key(const Tensor& key, const Batch&) {
  return variant_.index_keys ? op_.round_cache(key, {CacheFormat::IndexKey, {}, {}}) : key;
}

KvTap::Rows RoundingTap::stored(int cache, const Rows& block) {
  return {round(sites(cache).key, block.k), round(sites(cache).value, block.v)};
}

}  // namespace kvcal
