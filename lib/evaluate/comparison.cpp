#include "evaluate/comparison.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

/// [rows, vocab] on the host, as they are computed.
Storage logits_of(Ops& op, const Tensor& hidden, Head& head) {
  const Tensor logits = head.forward(op, hidden);
  Storage given(logits.shape, logits.dtype);
  op.download(logits, given.tensor());
  return given;
}

/// A row of logits as F32, to `wide` [vocab].
std::span<const float> widened(const Storage& logits, int64_t row, float* wide) {
  const Tensor t = logits.tensor().rows(row, 1);
  const auto n = static_cast<size_t>(t.elements());
  convert_to_float(t.dtype, t.data, wide, n);
  return {wide, n};
}

}  // namespace

class Comparison::ReferenceSink final : public LogitsSink {
 public:
  explicit ReferenceSink(Comparison& comparison) : comparison_(comparison) {}
  std::optional<int64_t> most_rows() const override { return kRows; }
  void hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) override {
    comparison_.keep(logits_of(op, x, head), batch);
  }

 private:
  Comparison& comparison_;
};

class Comparison::VariantSink final : public LogitsSink {
 public:
  VariantSink(Comparison& comparison, size_t variant) : comparison_(comparison), variant_(variant) {}
  std::optional<int64_t> most_rows() const override { return kRows; }
  void hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) override {
    comparison_.compare(logits_of(op, x, head), batch, variant_);
  }

 private:
  Comparison& comparison_;
  size_t variant_;
};

Comparison::Comparison(const std::vector<PromptTokens>& prompts, size_t n_variants, ReferenceRows& rows,
                       ThreadPool& pool)
    : prompts_(prompts),
      reference_(rows),
      pool_(pool),
      reference_sink_(std::make_unique<ReferenceSink>(*this)),
      tokens_(n_variants) {
  for (size_t i = 0; i < n_variants; ++i) variant_sinks_.push_back(std::make_unique<VariantSink>(*this, i));
}

Comparison::~Comparison() = default;

LogitsSink& Comparison::of_reference() { return *reference_sink_; }
LogitsSink& Comparison::of_variant(size_t i) { return *variant_sinks_[i]; }

void Comparison::keep(const Storage& logits, const Batch& batch) {
  const auto n_rows = static_cast<size_t>(batch.n_tokens()), vocab = static_cast<size_t>(logits.tensor().dim(1));
  reference_.logits.resize(std::max(reference_.logits.size(), n_rows * vocab));
  reference_.exponentials.resize(reference_.logits.size());
  std::vector<std::optional<ReferencePrediction>> rows(n_rows);
  pool_.parallel_for(batch.n_tokens(), [&](int64_t r, int) {
    const size_t row = static_cast<size_t>(r), at = row * vocab;
    rows[row].emplace(widened(logits, r, &reference_.logits[at]), std::span(&reference_.exponentials[at], vocab));
  });
  reference_.rows.clear();
  for (const auto& row : rows) reference_.rows.push_back(*row);
}

void Comparison::compare(const Storage& logits, const Batch& batch, size_t variant) {
  std::vector<ComparedToken>& tokens = tokens_[variant];
  const size_t before = tokens.size();
  const auto n_threads = static_cast<size_t>(pool_.n_threads()), vocab = static_cast<size_t>(logits.tensor().dim(1));
  std::vector<std::vector<float>> wide(n_threads, std::vector<float>(vocab));
  for (const Segment& s : batch.segments)
    for (int64_t t = 0; t < s.n_tokens; ++t) tokens.push_back({s.prompt, s.prompt_offset + t, false, {}});
  pool_.parallel_for(batch.n_tokens(), [&](int64_t r, int worker) {
    ComparedToken& token = tokens[before + static_cast<size_t>(r)];
    const PromptTokens& prompt = prompts_[static_cast<size_t>(token.prompt)];
    const ReferencePrediction& reference = reference_.rows[static_cast<size_t>(r)];
    if (!reference.is_finite())
      fail("prompt " + quoted(prompt.id) + ", token " + std::to_string(token.position) +
           ": the model's logits are not finite without any rounding");
    const auto next = static_cast<size_t>(token.position) + 1;
    token.has_next = next < prompt.ids.size();
    const std::span<const float> row = widened(logits, r, wide[static_cast<size_t>(worker)].data());
    token.difference = reference.difference(row, token.has_next ? prompt.ids[next] : -1);
  });
}

std::vector<ComparedToken> Comparison::take(size_t variant) {
  std::vector<ComparedToken> tokens = std::move(tokens_[variant]);
  std::ranges::sort(tokens, {}, [](const ComparedToken& t) { return std::tuple(t.prompt, t.position); });
  return tokens;
}

}  // namespace kvcal
