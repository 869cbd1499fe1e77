#include "report/estimates.h"

#include "base/number_text.h"
#include "report/markup.h"

namespace kvcal {
namespace {

std::string pair_sentence(const SavedConclusion::Pair& p) {
  const std::string one = variant_title(p.variant), other = variant_title(p.against);
  if (p.kl.value == 0 && p.kl.interval == std::pair(0.0, 0.0)) return one + " and " + other + " do not differ";
  const bool is_shown = p.kl.interval && (p.kl.interval->first > 0 || p.kl.interval->second < 0);
  if (!is_shown) return "no difference of " + one + " and " + other + " shown: " + kl_estimate(p.kl) + " nats a token";
  const auto [low, high] = *p.kl.interval;
  const bool is_worse = low > 0;
  return one + " is " + (is_worse ? "worse" : "better") + " than " + other + " by " +
         kl_estimate(is_worse ? p.kl : SavedEstimate{-p.kl.value, std::pair(-high, -low)}) + " nats a token";
}

}  // namespace

std::string variant_title(const std::string& name) { return name == "scale_1.0" ? "scale 1.0" : name; }

std::string kl_estimate(const SavedEstimate& kl) {
  const auto& i = kl.interval;
  return figure_text(kl.value) + (i ? " (" + figure_text(i->first) + " to " + figure_text(i->second) + ")" : "");
}

std::string share_estimate(const SavedEstimate& share) {
  if (!share.interval) return share_in_percent(share.value);
  const std::string low = share_in_percent(share.interval->first);
  return share_in_percent(share.value) + " (" + low.substr(0, low.find(' ')) + " to " +
         share_in_percent(share.interval->second) + ")";
}

std::vector<std::string> pair_sentences(const SavedConclusion& conclusion) {
  std::vector<std::string> sentences;
  for (const SavedConclusion::Pair& p : conclusion.pairs) sentences.push_back(pair_sentence(p));
  return sentences;
}

}  // namespace kvcal
