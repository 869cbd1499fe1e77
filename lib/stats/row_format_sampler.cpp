#include "stats/row_format_sampler.h"

#include <array>
#include <numeric>

#include "stats/attention_sampler.h"
#include "stats/fetched.h"
#include "tensor/dtype.h"

namespace kvcal {

void RowFormatSampler::add(Ops& op, const KvLayout& layout, const TappedAttention& a, const Batch& batch,
                           ThreadPool& pool) {
  if (!a.k) return;
  const std::vector<int32_t> rows = sampled_rows(batch).rows;
  if (rows.empty()) return;
  if (a.k.device == Device::Host)
    count(layout, a.k, a.v, rows, pool);
  else
    keep(op, a, rows);
}

void RowFormatSampler::keep(Ops& op, const TappedAttention& a, const std::vector<int32_t>& rows) {
  op_ = &op;
  const std::vector<int64_t> taken(rows.begin(), rows.end());
  const Span span{0, static_cast<int64_t>(rows.size()), kept_.n_tokens};
  kept_.max_tokens = most_rows_;
  KvRows* const to[] = {&kept_};
  op.keep_rows(op.take_rows(a.k, taken), op.take_rows(a.v, taken), {&span, 1}, to);
}

int64_t RowFormatSampler::bytes(const KvLayout& layout, int64_t n_rows, Precision precision) {
  constexpr int64_t kPadding = 2 * 256;
  const DType type = precision == Precision::BF16 ? DType::BF16 : DType::F32;
  const int64_t width = layout.n_kv_heads * (layout.head_dim_k + layout.head_dim_v);
  return n_rows == 0 ? 0 : n_rows * width * static_cast<int64_t>(size_of(type)) + kPadding;
}

void RowFormatSampler::close() {
  if (kept_.n_tokens > 0) closed_ = op_->mark();
}

void RowFormatSampler::fetch(const KvLayout& layout, ThreadPool& pool) {
  const KvRows kept = std::exchange(kept_, {});
  const auto on_host = [&](const Tensor& all) { return fetched(*op_, closed_, all.rows(0, kept.n_tokens)); };
  const Storage key_or_row = on_host(kept.key), value = layout.is_mla() ? Storage() : on_host(kept.value);
  std::vector<int32_t> rows(static_cast<size_t>(kept.n_tokens));
  std::iota(rows.begin(), rows.end(), 0);
  count(layout, key_or_row.tensor(), value.tensor(), rows, pool);
}

void RowFormatSampler::count(const KvLayout& layout, const Tensor& key_or_row, const Tensor& value,
                             std::span<const int32_t> rows, ThreadPool& pool) {
  if (layout.is_mla()) {
    key_or_row_.add(key_or_row, rows, std::array{layout.latent_dim, layout.head_dim_k - layout.latent_dim}, pool);
    return;
  }
  key_or_row_.add(key_or_row, rows, std::array{layout.head_dim_k}, pool);
  value_.add(value, rows, std::array{layout.head_dim_v}, pool);
}

void RowFormatSampler::fold_into(CacheStatistics& cache, ThreadPool& pool) {
  if (kept_.n_tokens > 0) fetch(cache.layout, pool);
  const bool mla = cache.layout.is_mla();
  cache.at(mla ? CacheSite::Latent : CacheSite::Key).row_formats = key_or_row_.encode(0);
  if (mla)
    cache.at(CacheSite::Rope).row_formats = key_or_row_.encode(1);
  else
    cache.at(CacheSite::Value).row_formats = value_.encode(0);
}

}  // namespace kvcal
