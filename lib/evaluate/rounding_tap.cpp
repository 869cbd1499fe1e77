#include "evaluate/rounding_tap.h"

#include "stats/attention_sampler.h"

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

Storage on_host(Ops& op, const Tensor& x) {
  Storage copy(x.shape, x.dtype);
  op.download(x, copy.tensor());
  return copy;
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

// Sampled rows are rounded once more, alone: with --keep-recent theirs come in blocks that know no batch.
void RoundingTap::measure_rows(const Shown& shown, const Tensor& x, const Batch& batch) {
  const std::vector<int32_t> sampled = sampled_rows(batch).rows;
  if (sampled.empty()) return;
  const Tensor rows = op_.take_rows(x, std::vector<int64_t>(sampled.begin(), sampled.end()));
  errors_->add(spec_->caches[static_cast<size_t>(shown.cache)], shown.site, on_host(op_, rows).tensor(),
               on_host(op_, round(shown.rounding, rows)).tensor());
}

Tensor RoundingTap::written(const Shown& shown, const Tensor& x, const Batch& batch) {
  if (errors_ && shown.rounding) measure_rows(shown, x, batch);
  return now(shown.rounding, x);
}

Tensor RoundingTap::query(int cache, const Tensor& q, const Batch&) { return round(sites(cache).query, q); }
Tensor RoundingTap::key(int cache, const Tensor& k, const Batch& batch) {
  return written({cache, CacheSite::Key, sites(cache).key}, k, batch);
}
Tensor RoundingTap::value(int cache, const Tensor& v, const Batch& batch) {
  return written({cache, CacheSite::Value, sites(cache).value}, v, batch);
}
Tensor RoundingTap::latent(int cache, const Tensor& row, const Batch& batch) {
  return written({cache, CacheSite::Latent, sites(cache).key}, row, batch);
}
Tensor RoundingTap::index_key(const Tensor& key, const Batch&) {
  return variant_.index_keys ? op_.round_cache(key, {CacheFormat::IndexKey, {}, {}}) : key;
}

KvTap::Rows RoundingTap::stored(int cache, const Rows& block) {
  return {round(sites(cache).key, block.k), round(sites(cache).value, block.v)};
}

}  // namespace kvcal
