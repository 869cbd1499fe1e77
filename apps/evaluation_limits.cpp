#include "evaluation_limits.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/number_text.h"

namespace kvcal {
namespace {

std::string number(double x) { return formatted("%.3g", x + 0.0); }  // no -0

bool is_kept(const Limit& limit, double value) { return limit.is_most ? value <= limit.limit : value >= limit.limit; }

/// Whatever else other prompts bring: no KL is below 0, and no share above 1.
bool is_broken_for_certain(const Limit& limit, double value) {
  return !is_kept(limit, value) && limit.limit == (limit.is_most ? 0 : 1);
}

Kept kept_of(const Limit& limit, const Estimate& found) {
  if (is_broken_for_certain(limit, found.value)) return Kept::No;
  if (!found.interval) return Kept::Unknown;
  const bool low = is_kept(limit, found.interval->low), high = is_kept(limit, found.interval->high);
  return low != high ? Kept::Unknown : low ? Kept::Yes : Kept::No;
}

/// Rounded up to two digits: the number of prompts is known no better.
double two_digits(double n) {
  const double unit = n < 100 ? 1 : std::pow(10, std::floor(std::log10(n)) - 1);
  return std::ceil(n / unit) * unit;
}

}  // namespace

std::string estimate_text(const Estimate& estimate) {
  std::string text = number(estimate.value);
  if (estimate.interval)
    text += " (95 %: " + number(estimate.interval->low) + " to " + number(estimate.interval->high) + ")";
  return text;
}

std::optional<int64_t> more_prompts(const Estimate& found, double limit, const PromptGroups& groups) {
  const auto [low, high] = *found.interval;
  const double ratio = (limit < found.value ? found.value - low : high - found.value) / std::fabs(limit - found.value);
  // An interval narrows with the root of the number; Wilson's of a share of 1 with the odds of its end.
  const bool is_all = found.value == 1 && high == 1;
  const double times = is_all ? (1 - low) / low * limit / (1 - limit) : ratio * ratio;
  const auto n = static_cast<double>(groups.prompts.size());
  // Next to the limit the figure's own error decides what this gives: by chance it could be any number. And an interval
  // that ends at 1 was cut there.
  const bool is_cut = high == 1 && limit > found.value;
  if (!(is_all ? times * n < 1e6 : times < 25 && !is_cut)) return std::nullopt;
  return std::max<int64_t>(1, static_cast<int64_t>(two_digits(n * times - n)));
}

std::string more_prompts_text(int64_t more) { return "about " + counted(more, "more prompt"); }

std::string missing_prompts_text(const PromptGroups& groups) {
  return counted(groups.n_needed - groups.n_groups, "more prompt");
}

LimitVerdict judge(const Limit& limit, const std::string& variant, const Estimate& found, const PromptGroups& groups) {
  LimitVerdict verdict{kept_of(limit, found), variant + ": " + limit.what + " is " + estimate_text(found) +
                                                  ", the limit " + number(limit.limit)};
  if (verdict.kept != Kept::Unknown) return verdict;
  verdict.line += ", not decided: ";
  if (!found.interval) {
    verdict.line +=
        "fewer than " + std::to_string(groups.n_needed) + " independent prompts; give " +
        (groups.n_groups < groups.n_needed ? "at least " + missing_prompts_text(groups) : "more that expect an answer");
    return verdict;
  }
  const auto more = more_prompts(found, limit.limit, groups);
  if (more)
    verdict.line += more_prompts_text(*more) + " would decide";
  else
    verdict.line += limit.limit == 1 ? "no number of prompts shows a share of 1"
                                     : "too close to the limit to tell how many more prompts would";
  return verdict;
}

LimitVerdict judge_kl(double most, const VariantEvidence& found, const PromptGroups& groups) {
  if (found.n_not_finite == 0) return judge({"mean KL", most, true}, found.name, found.kl, groups);
  return {Kept::No, found.name + ": mean KL is not finite, for logits after " + grouped(found.n_not_finite) +
                        " tokens are not; the limit " + number(most)};
}

}  // namespace kvcal
