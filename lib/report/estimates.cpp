#include "report/estimates.h"

#include "base/number_text.h"
#include "report/markup.h"

namespace kvcal {
namespace {

std::string pair_sentence(const SavedConclusion::Pair& p, std::string (*shown)(std::string_view)) {
  const std::string one = shown(p.variant), other = shown(p.against);
  if (p.kl.value == 0 && p.kl.interval == std::pair(0.0, 0.0)) return one + " and " + other + " do not differ";
  const bool is_shown = p.kl.interval && (p.kl.interval->first > 0 || p.kl.interval->second < 0);
  if (!is_shown) return "no difference of " + one + " and " + other + " shown: " + kl_estimate(p.kl) + " nats a token";
  const auto [low, high] = *p.kl.interval;
  const bool is_worse = low > 0;
  return one + " is " + (is_worse ? "worse" : "better") + " than " + other + " by " +
         kl_estimate(is_worse ? p.kl : SavedEstimate{-p.kl.value, std::pair(-high, -low)}) + " nats a token";
}

}  // namespace

std::string kl_estimate(const SavedEstimate& kl) {
  const auto& i = kl.interval;
  return figure_text(kl.value) + (i ? " (" + figure_text(i->first) + " to " + figure_text(i->second) + ")" : "");
}

bool is_open_above(double quotient, double high) {
  constexpr double kMost = 10;
  return high > kMost * quotient;
}

std::string times_estimate(const SavedEstimate& times) {
  if (!times.interval || !is_open_above(times.value, times.interval->second)) return kl_estimate(times);
  return figure_text(times.value) + " (" + figure_text(times.interval->first) + " or more)";
}

std::string slope_sentence(const std::optional<std::pair<double, double>>& interval, const std::string& estimate) {
  const bool is_undecided = !interval || (interval->first <= 0 && interval->second > 0);
  return (is_undecided          ? "whether the KL grows with the position is not decided: "
          : interval->first > 0 ? "the KL grows with the position, by "
                                : "the KL does not grow with the position: ") +
         estimate + " per 1,000 tokens";
}

std::string share_estimate(const SavedEstimate& share) {
  if (!share.interval) return share_in_percent(share.value);
  const std::string low = share_in_percent(share.interval->first);
  return share_in_percent(share.value) + " (" + low.substr(0, low.find(' ')) + " to " +
         share_in_percent(share.interval->second) + ")";
}

std::vector<std::string> pair_sentences(const SavedConclusion& conclusion, std::string (*shown)(std::string_view)) {
  std::vector<std::string> sentences;
  for (const SavedConclusion::Pair& p : conclusion.pairs) sentences.push_back(pair_sentence(p, shown));
  return sentences;
}

std::string how_evaluated(const SavedEvaluation& e, std::string (*shown)(std::string_view)) {
  std::string text = "in " + shown(e.precision);
  if (!e.attention.empty()) text += ", with the attention of " + shown(e.attention);
  if (e.keep_recent > 0) text += ", rows rounded once their block of " + grouped(e.keep_recent) + " is full";
  if (e.state_chunk == 0) text += ", states stored behind prompts";
  if (e.state_chunk > 1) text += ", states stored every " + grouped(e.state_chunk) + " tokens";
  if (e.until_decided)
    text += ", as many prompts as decided whether the mean KL is above " + figure_text(*e.until_decided);
  return text;
}

}  // namespace kvcal
