#include "evaluate/comparison.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

/// F32 [rows, vocab] on the host.
Storage logits_of(Ops& op, const Tensor& hidden, Head& head) {
  const Tensor logits = head.forward(op, hidden);
  const Storage given(logits.shape, logits.dtype);
  op.download(logits, given.tensor());
  Storage wide(logits.shape, DType::F32);
  convert_to_float(logits.dtype, given.tensor().data, wide.tensor().as<float>(),
                   static_cast<size_t>(logits.elements()));
  return wide;
}

std::span<const float> row_of(const Storage& logits, int64_t row) {
  const Tensor& t = logits.tensor();
  return {t.as<float>() + row * t.dim(1), static_cast<size_t>(t.dim(1))};
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

Comparison::Comparison(const std::vector<PromptTokens>& prompts, size_t n_variants, ThreadPool& pool)
    : prompts_(prompts), pool_(pool), reference_sink_(std::make_unique<ReferenceSink>(*this)), tokens_(n_variants) {
  for (size_t i = 0; i < n_variants; ++i) variant_sinks_.push_back(std::make_unique<VariantSink>(*this, i));
}

Comparison::~Comparison() = default;

LogitsSink& Comparison::of_reference() { return *reference_sink_; }
LogitsSink& Comparison::of_variant(size_t i) { return *variant_sinks_[i]; }

void Comparison::keep(Storage logits, const Batch& batch) {
  reference_logits_ = std::move(logits);
  std::vector<std::optional<ReferencePrediction>> rows(batch.ids.size());
  pool_.parallel_for(batch.n_tokens(),
                     [&](int64_t r, int) { rows[static_cast<size_t>(r)].emplace(row_of(reference_logits_, r)); });
  reference_.clear();
  for (auto& row : rows) reference_.push_back(*std::move(row));
}

void Comparison::compare(const Storage& logits, const Batch& batch, size_t variant) {
  std::vector<ComparedToken>& tokens = tokens_[variant];
  const size_t before = tokens.size();
  for (const Segment& s : batch.segments)
    for (int64_t t = 0; t < s.n_tokens; ++t) tokens.push_back({s.prompt, s.prompt_offset + t, false, {}});
  pool_.parallel_for(batch.n_tokens(), [&](int64_t r, int) {
    ComparedToken& token = tokens[before + static_cast<size_t>(r)];
    const PromptTokens& prompt = prompts_[static_cast<size_t>(token.prompt)];
    const ReferencePrediction& reference = reference_[static_cast<size_t>(r)];
    if (!reference.is_finite())
      fail("prompt " + quoted(prompt.id) + ", token " + std::to_string(token.position) +
           ": the model's logits are not finite without any rounding");
    const auto next = static_cast<size_t>(token.position) + 1;
    token.has_next = next < prompt.ids.size();
    token.difference = reference.difference(row_of(logits, r), token.has_next ? prompt.ids[next] : -1);
  });
}

std::vector<ComparedToken> Comparison::take(size_t variant) {
  std::vector<ComparedToken> tokens = std::move(tokens_[variant]);
  std::ranges::sort(tokens, {}, [](const ComparedToken& t) { return std::tuple(t.prompt, t.position); });
  return tokens;
}

}  // namespace kvcal
