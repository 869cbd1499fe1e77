#include "prefill/sanity.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/portable_math.h"

namespace kvcal {
namespace {

// -ln softmax(logits)[target], in double and in index order.
double negative_log_likelihood(const std::vector<float>& logits, int32_t target) {
  constexpr double kNegligible = 40;  // e^-40 is below the last bit of any sum here
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits)
    if (largest - x < kNegligible) sum += portable_exp(x - largest);
  return largest + portable_log(sum) - logits[static_cast<size_t>(target)];
}

}  // namespace

const std::string& SanityCheck::prompt_at(const Batch& batch, int64_t row) const {
  const auto after = std::upper_bound(batch.segments.begin(), batch.segments.end(), row,
                                      [](int64_t r, const Segment& segment) { return r < segment.row; });
  return prompts_[static_cast<size_t>((after - 1)->prompt)].id;
}

void SanityCheck::hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) {
  const Tensor logits = head.forward(op, x);  // [tokens, vocab]
  const Storage host(logits.shape, logits.dtype);
  op.download(logits, host.tensor());
  std::vector<float> row(static_cast<size_t>(vocab_));
  for (const SequenceSpan& s : batch.sequences)
    for (int64_t t = s.span.row; t + 1 < s.span.row + s.span.n_tokens; ++t) {
      convert_to_float(logits.dtype, host.tensor().rows(t, 1).data, row.data(), row.size());
      const double nll = negative_log_likelihood(row, batch.ids[static_cast<size_t>(t + 1)]);
      if (!std::isfinite(nll))
        fail("the logits of prompt " + quoted(prompt_at(batch, t)) + " at position " +
             std::to_string(s.span.first_position + t - s.span.row) +
             " are not finite: the checkpoint is damaged after its last KV cache, or is loaded wrongly");
      sum_ += nll;
      ++n_tokens_;
    }
}

double SanityCheck::uniform_nll() const { return portable_log(static_cast<double>(vocab_)); }

}  // namespace kvcal
