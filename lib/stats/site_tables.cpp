#include "stats/site_tables.h"

#include <algorithm>

#include "base/position_bucket.h"
#include "tensor/dtype.h"

namespace kvcal {

SiteTables::SiteTables(const KvLayout& layout, CacheSite site, int n_passes, int64_t n_prompts,
                       const KindsByPrompt& kinds)
    : width_(width_of(layout, site)),
      n_prompts_(n_prompts),
      prompt_absmax_(static_cast<size_t>(n_passes) * static_cast<size_t>(n_prompts)),
      kinds_(kinds),
      kind_absmax_(kinds.empty() ? 0 : static_cast<size_t>(n_passes) * kTokenKinds),
      kind_tokens_(kinds.empty() ? 0 : kTokenKinds) {
  for (int64_t h = 0; h < heads_of(layout, site); ++h) heads_.emplace_back(layout, site, h);
}

int64_t SiteTables::bytes(const KvLayout& layout, CacheSite site) {
  return heads_of(layout, site) * HeadTables::bytes(layout, site);
}

void SiteTables::add(const Tensor& x, const Batch& batch, ThreadPool& pool, int64_t from) {
  const auto n_heads = static_cast<int64_t>(heads_.size()), n_tokens = batch.n_tokens(), stride = n_heads * x.dim(2);
  row_absmax_.resize(static_cast<size_t>(n_heads * n_tokens));
  pool.parallel_for(n_heads, [&](int64_t h, int) {
    std::vector<uint16_t> rounded;  // [n, width], this head's rows of one segment
    for (const Segment& s : batch.segments) {
      uint16_t* absmax = row_absmax_.data() + h * n_tokens + s.row;
      const int64_t first = s.row * stride + h * x.dim(2) + from;
      if (x.dtype == DType::BF16) {
        heads_[static_cast<size_t>(h)].add(s, x.as<uint16_t>() + first, stride, absmax);
        continue;
      }
      rounded.resize(static_cast<size_t>(s.n_tokens * width_));
      const float* values = x.as<float>() + first;
      for (int64_t t = 0; t < s.n_tokens; ++t)
        for (int64_t c = 0; c < width_; ++c)
          rounded[static_cast<size_t>(t * width_ + c)] = to_bf16(values[t * stride + c]).bits;
      heads_[static_cast<size_t>(h)].add(s, rounded.data(), width_, absmax);
    }
  });
  add_maxima(batch);
  n_tokens_ += static_cast<uint64_t>(n_tokens);
}

void SiteTables::add(const CountedSite& counted, ThreadPool& pool) {
  pool.parallel_for(static_cast<int64_t>(heads_.size()), [&](int64_t head, int) {
    const auto h = static_cast<size_t>(head);
    heads_[h].add(counted.heads[h]);
  });
  const auto raise = [](std::vector<uint16_t>& to, const std::vector<uint16_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
  };
  raise(position_absmax_, counted.position_absmax);
  raise(prompt_absmax_, counted.prompt_absmax);
  raise(kind_absmax_, counted.kind_absmax);
  for (size_t kind = 0; kind < counted.kind_tokens.size(); ++kind) kind_tokens_[kind] += counted.kind_tokens[kind];
  n_tokens_ += counted.n_tokens;
}

void SiteTables::add_maxima(const Batch& batch) {
  const int64_t n_tokens = batch.n_tokens();
  uint16_t* absmax = row_absmax_.data();  // row 0 becomes the maximum over heads
  for (size_t h = 1; h < heads_.size(); ++h) {
    const uint16_t* head = row_absmax_.data() + static_cast<int64_t>(h) * n_tokens;
    for (int64_t t = 0; t < n_tokens; ++t) absmax[t] = std::max(absmax[t], head[t]);
  }
  for (const Segment& s : batch.segments) {
    uint16_t& prompt = prompt_absmax_[static_cast<size_t>((s.pass - 1) * n_prompts_ + s.prompt)];
    for (int64_t i = 0; i < s.n_tokens; ++i) {
      const auto bucket = static_cast<size_t>(position_bucket(s.first_position + i));
      if (bucket >= position_absmax_.size()) position_absmax_.resize(bucket + 1);
      const uint16_t code = absmax[s.row + i];
      position_absmax_[bucket] = std::max(position_absmax_[bucket], code);
      prompt = std::max(prompt, code);
    }
    if (!kinds_.empty()) add_kinds(s);
  }
}

/// The rows' maxima are in row_absmax_ already.
void SiteTables::add_kinds(const Segment& s) {
  const uint8_t* kind = kinds_[static_cast<size_t>(s.prompt)].data() + s.prompt_offset;
  uint16_t* absmax = kind_absmax_.data() + static_cast<size_t>(s.pass - 1) * kTokenKinds;
  for (int64_t i = 0; i < s.n_tokens; ++i) {
    absmax[kind[i]] = std::max(absmax[kind[i]], row_absmax_[static_cast<size_t>(s.row + i)]);
    ++kind_tokens_[kind[i]];
  }
}

const NonFinite* SiteTables::first_non_finite() const {
  const NonFinite* first = nullptr;
  for (const HeadTables& head : heads_)
    if (const auto& found = head.first_non_finite(); found && (!first || found->where < first->where)) first = &*found;
  return first;
}

SiteStatistics SiteTables::encode(ThreadPool& pool) {
  SiteStatistics site;
  const size_t n_heads = heads_.size(), width = static_cast<size_t>(width_);
  const size_t n_pairs = n_heads == 0 ? 0 : heads_[0].encode_pairs().size();
  site.heads.resize(n_heads);
  site.channels.resize(n_heads * width);
  site.pair_norm.resize(n_heads * n_pairs);
  pool.parallel_for(static_cast<int64_t>(n_heads), [&](int64_t head, int) {
    const auto h = static_cast<size_t>(head);
    site.heads[h] = heads_[h].encode_head();
    std::ranges::move(heads_[h].encode_channels(), site.channels.begin() + static_cast<ptrdiff_t>(h * width));
    std::ranges::copy(heads_[h].encode_pairs(), site.pair_norm.begin() + static_cast<ptrdiff_t>(h * n_pairs));
  });
  site.position_absmax = position_absmax_;
  site.prompt_absmax = prompt_absmax_;
  site.kind_absmax = kind_absmax_;
  site.kind_tokens = kind_tokens_;
  site.n_tokens = n_tokens_;
  return site;
}

}  // namespace kvcal
