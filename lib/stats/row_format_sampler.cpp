#include "stats/row_format_sampler.h"

#include <array>

#include "stats/attention_sampler.h"

namespace kvcal {

void RowFormatSampler::add(const KvLayout& layout, const TappedAttention& a, const Batch& batch, ThreadPool& pool) {
  if (!a.k || a.k.device != Device::Host) return;
  const std::vector<int32_t> rows = sampled_rows(batch).rows;
  if (layout.is_mla()) {
    key_or_row_.add(a.k, rows, std::array{layout.latent_dim, layout.head_dim_k - layout.latent_dim}, pool);
    return;
  }
  key_or_row_.add(a.k, rows, std::array{layout.head_dim_k}, pool);
  value_.add(a.v, rows, std::array{layout.head_dim_v}, pool);
}

void RowFormatSampler::fold_into(CacheStatistics& cache) const {
  const bool mla = cache.layout.is_mla();
  cache.at(mla ? CacheSite::Latent : CacheSite::Key).row_formats = key_or_row_.encode(0);
  if (mla)
    cache.at(CacheSite::Rope).row_formats = key_or_row_.encode(1);
  else
    cache.at(CacheSite::Value).row_formats = value_.encode(0);
}

}  // namespace kvcal
