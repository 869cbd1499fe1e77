#include "stats/attention_sampler.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "stats/fetched.h"

namespace kvcal {
namespace {

bool is_alone(const Batch& batch, int64_t sequence) {
  const auto segment = std::ranges::find(batch.segments, sequence, &Segment::sequence);
  return segment != batch.segments.end() && segment->pass == 1;
}

/// |x|² of the rows of a sample, fetched; empty where they were not asked for.
std::span<const double> squares_in(const Tensor& stream) {
  return stream ? std::span(stream.as<double>(), static_cast<size_t>(stream.elements())) : std::span<const double>();
}

}  // namespace

SampledRows sampled_rows(const Batch& batch) {
  SampledRows sampled;
  for (const SequenceSpan& s : batch.sequences) {
    if (!is_alone(batch, s.sequence)) continue;
    for (int64_t t = 0; t < s.span.n_tokens; ++t) {
      const int64_t position = s.span.first_position + t;
      if (!is_sampled(position, s.sequence_tokens)) continue;
      sampled.rows.push_back(static_cast<int32_t>(s.span.row + t));
      sampled.thorough.push_back(thorough(position, s.sequence_tokens));
      sampled.tokens.push_back(tokens_of_row(position, s.sequence_tokens));
    }
  }
  return sampled;
}

SampleRequest AttentionSampler::request() const {
  SampleRequest request;
  request.format = options_.format;
  request.rungs_below = options_.rungs_below;
  return request;
}

int64_t n_sampled(const std::vector<Segment>& segments) {
  std::map<int64_t, int64_t> tokens;  // of the sequences of pass 1
  for (const Segment& segment : segments)
    if (segment.pass == 1) tokens[segment.sequence] += segment.n_tokens;
  int64_t n = 0;
  for (const auto& [sequence, n_tokens] : tokens) n += std::min(n_tokens, kSampledRows);
  return n;
}

void AttentionSampler::add(Ops& op, const TappedAttention& a, const Batch& batch, const ReadingLayer& layer,
                           ThreadPool& pool) {
  op_ = &op;
  const int64_t n_heads = a.q.dim(1), width = a.column_norms.width(n_heads);
  const Tensor& keys = a.k ? a.k : a.rows[0]->key.view;
  keep_norms(a.column_norms, n_heads, keys.dim(1));
  auto [rows, tries, tokens] = sampled_rows(batch);
  const auto reader = static_cast<size_t>(layer.reader);
  n_rows_.resize(std::max(n_rows_.size(), reader + 1));
  n_rows_[reader] += static_cast<int64_t>(rows.size());
  if (rows.empty() || width == 0) return;
  SampleRequest wanted = request();
  wanted.rows = rows;
  wanted.thorough = tries;
  wanted.column_norms = a.column_norms.values;
  wanted.one_scale = a.one_scale;
  if (a.column_norms.reaches_stream) wanted.stream = layer.stream;
  const AttentionSample sample = op.sample_attention(a.q, a.k, a.v, batch.spans, a.rows, a.spec, wanted);
  if (sample.figures.view.device == Device::Host)
    tables_.add({sample.rungs, sample.figures, layer.reader, tokens, squares_in(sample.stream)}, wanted, pool);
  else
    pending_.push_back({sample, layer.reader, std::move(tokens)});
}

int64_t AttentionSampler::bytes(int64_t n_heads, int64_t n_rows, const SampleOptions& options) {
  constexpr int64_t kPadding = 3 * 256;  // of the tensors of a batch, which has a row at least
  constexpr auto kRow = static_cast<int64_t>(3 * sizeof(int32_t) + sizeof(double));
  const int64_t n_figures = n_heads * AttentionSampler(options).request().n_figures();
  return n_rows * (kRow + n_figures * static_cast<int64_t>(sizeof(float)) + kPadding);
}

int64_t AttentionSampler::n_rows(int32_t reader) const {
  return static_cast<size_t>(reader) < n_rows_.size() ? n_rows_[static_cast<size_t>(reader)] : 0;
}

void AttentionSampler::keep_norms(const ColumnNorms& norms, int64_t n_heads, int64_t n_kv_heads) {
  const int64_t width = norms.width(n_heads), group = n_heads / n_kv_heads;
  column_norms_.resize(static_cast<size_t>(n_kv_heads * width));
  for (int64_t head = 0; head < n_kv_heads; ++head)
    for (int64_t c = 0; c < width; ++c) {
      double square = 0;
      for (int64_t q = head * group; q < (head + 1) * group; ++q) {
        const auto norm = static_cast<double>((*norms.on_host)[static_cast<size_t>(q * width + c)]);
        square += norm * norm;
      }
      float& kept = column_norms_[static_cast<size_t>(head * width + c)];
      kept = std::max(kept, static_cast<float>(std::sqrt(square)));
    }
}

void AttentionSampler::close() {
  if (!pending_.empty()) closed_ = op_->mark();
}

void AttentionSampler::fold_into(CacheStatistics& cache, ThreadPool& pool) {
  for (const Pending& p : std::exchange(pending_, {})) {
    const auto on_host = [&](const Tensor& t) { return fetched(*op_, closed_, t); };
    const Storage rungs = on_host(p.sample.rungs), figures = on_host(p.sample.figures);
    const Storage stream = p.sample.stream ? on_host(p.sample.stream) : Storage();
    tables_.add({rungs.tensor(), figures.tensor(), p.reader, p.tokens, squares_in(stream.tensor())}, request(), pool);
  }
  const bool mla = cache.layout.is_mla();
  SiteStatistics& key = cache.at(mla ? CacheSite::Latent : CacheSite::Key);
  SiteStatistics& value = cache.at(mla ? CacheSite::Latent : CacheSite::Value);
  for (const SampledSum& sum : tables_.encode()) {
    const bool is_query = sum.figure == SampledFigure::QueryDivergence;
    const bool is_key = sum.figure == SampledFigure::KeyDivergence || sum.figure == SampledFigure::KeyStreamChange ||
                        sum.figure == SampledFigure::KeyLayerChange;
    (is_query ? cache.at(CacheSite::Query) : is_key ? key : value).sampled.push_back(sum);
  }
  value.column_norms = std::move(column_norms_);
}

}  // namespace kvcal
