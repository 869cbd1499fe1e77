#include "evaluate/conclusion.h"

#include <algorithm>
#include <functional>

namespace kvcal {
namespace {

/// What a token adds to a sum; none: it does not count.
using TokenValue = std::function<std::optional<double>(size_t)>;

/// Over tokens by prompt and position, each that prompts repeat once.
GroupSums sums_of(const std::vector<ComparedToken>& tokens, const PromptGroups& groups, const TokenValue& value_of) {
  GroupSums sums;
  sums.groups.resize(static_cast<size_t>(groups.n_groups));
  for (size_t i = 0; i < tokens.size(); ++i) {
    const PromptGroups::Part& part = groups.prompts[static_cast<size_t>(tokens[i].prompt)];
    if (tokens[i].position < part.repeated) continue;
    const std::optional<double> value = value_of(i);
    if (!value) continue;
    GroupSum& sum = tokens[i].position < part.shared ? sums.fixed : sums.groups[static_cast<size_t>(part.group)];
    sum.sum += *value;
    sum.n += 1;
  }
  return sums;
}

Estimate correct_of(const Answers& answers, const PromptGroups& groups) {
  GroupSums sums;
  sums.groups.resize(static_cast<size_t>(groups.n_groups));
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].correct) continue;
    const int64_t group = groups.prompts[i].group;
    GroupSum& sum = group < 0 ? sums.fixed : sums.groups[static_cast<size_t>(group)];
    sum.sum += *answers[i].correct;
    sum.n += 1;
  }
  // The same prompt twice has the same answer.
  return share_of(sums, static_cast<double>(std::ranges::count_if(sums.groups, [](const auto& g) { return g.n > 0; })));
}

VariantEvidence evidence_of(const EvaluatedVariant& v, const PromptGroups& groups) {
  VariantEvidence evidence{v.variant.name, {}, {}, 0, {}};
  evidence.kl = ratio_of(sums_of(v.tokens, groups, [&](size_t i) -> std::optional<double> {
    const PredictionDifference& d = v.tokens[i].difference;
    return d.finite ? std::optional(d.kl) : std::nullopt;
  }));
  const auto agrees = [&](size_t i) -> std::optional<double> {
    const PredictionDifference& d = v.tokens[i].difference;
    return d.finite && d.same_top ? 1 : 0;
  };
  evidence.top1 = share_of(sums_of(v.tokens, groups, agrees), static_cast<double>(groups.n_counted));
  evidence.n_not_finite = std::ranges::count_if(v.tokens, [](const auto& t) { return !t.difference.finite; });
  return evidence;
}

PairEvidence pair_of(const EvaluatedVariant& v, const EvaluatedVariant& against, const PromptGroups& groups) {
  PairEvidence pair{v.variant.name, against.variant.name, {}, 0, 0, true};
  const GroupSums sums = sums_of(v.tokens, groups, [&](size_t i) -> std::optional<double> {
    const PredictionDifference &a = v.tokens[i].difference, &b = against.tokens[i].difference;
    if (!a.finite || !b.finite) return std::nullopt;
    pair.same = pair.same && a.kl == b.kl && a.same_top == b.same_top;
    return a.kl - b.kl;
  });
  pair.kl = ratio_of(sums);
  pair.n_worse = std::ranges::count_if(sums.groups, [](const GroupSum& g) { return g.sum > 0; });
  pair.n_better = std::ranges::count_if(sums.groups, [](const GroupSum& g) { return g.sum < 0; });
  return pair;
}

/// Controls are worse by intention, and states of recurrent layers are no cache.
bool is_weighed(const Variant& variant) {
  return variant.name != "scale_1.0" && variant.name != "swapped" && variant.name != "undivided" &&
         !variant.state.rounds();
}

bool is_file(const Variant& variant) { return variant.name == "file" || variant.name.starts_with("file_"); }

}  // namespace

const VariantEvidence& Conclusion::of(const std::string& name) const {
  return *std::ranges::find(variants, name, &VariantEvidence::name);
}

const PairEvidence* Conclusion::pair(const std::string& variant) const {
  const auto found = std::ranges::find(pairs, variant, &PairEvidence::variant);
  return found == pairs.end() ? nullptr : &*found;
}

Conclusion conclude(const Evaluation& evaluation) {
  Conclusion conclusion;
  conclusion.groups = group_prompts(evaluation.prompts);
  for (size_t i = 0; i < evaluation.compared.size(); ++i) {
    VariantEvidence& v = conclusion.variants.emplace_back(evidence_of(evaluation.compared[i], conclusion.groups));
    if (evaluation.answers.empty() || evaluation.answers[i + 1].empty()) continue;
    const Answers& answers = evaluation.answers[i + 1];
    if (std::ranges::any_of(answers, [](const ModelAnswer& a) { return a.correct.has_value(); }))
      v.correct = correct_of(answers, conclusion.groups);
  }
  const auto named = [&](const char* name) {
    return std::ranges::find(evaluation.compared, name, [](const auto& v) { return v.variant.name; });
  };
  const auto one = named("scale_1.0"), file = named("file"), end = evaluation.compared.end();
  if (one == end) return conclusion;
  for (const EvaluatedVariant& v : evaluation.compared)
    if (is_weighed(v.variant))
      conclusion.pairs.push_back(pair_of(v, is_file(v.variant) || file == end ? *one : *file, conclusion.groups));
  return conclusion;
}

}  // namespace kvcal
