#include "evaluate/conclusion.h"

#include <algorithm>
#include <functional>
#include <span>

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

/// Of tokens of one prompt: their KL by position, both about their means.
GroupSum slope_sum(std::span<const ComparedToken> tokens) {
  const auto n = static_cast<double>(tokens.size());
  double position = 0, kl = 0;
  for (const ComparedToken& t : tokens) {
    position += static_cast<double>(t.position) / n;
    kl += t.difference.kl / n;
  }
  GroupSum sum;
  for (const ComparedToken& t : tokens) {
    const double x = static_cast<double>(t.position) - position;
    sum.sum += x * (t.difference.kl - kl);
    sum.n += x * x;
  }
  return sum;
}

/// Over tokens by prompt and position, of each prompt those that belong to its group alone, from the position on that
/// reads the first stored state: those before have no KL by construction. No groups: one token each.
GroupSums slope_sums(std::span<const ComparedToken> tokens, const PromptGroups& groups, int64_t first) {
  constexpr double kUnit = 1000;  // tokens
  GroupSums sums;
  sums.groups.resize(static_cast<size_t>(groups.n_groups));
  for (size_t begin = 0, end = 0; begin < tokens.size(); begin = end) {
    const PromptGroups::Part& part = groups.prompts[static_cast<size_t>(tokens[begin].prompt)];
    for (end = begin; end < tokens.size() && tokens[end].prompt == tokens[begin].prompt;) ++end;
    const auto skipped = static_cast<size_t>(std::max({part.repeated, part.shared, first}));
    if (part.group < 0 || skipped >= end - begin) continue;
    const GroupSum own = slope_sum(tokens.subspan(begin + skipped, end - begin - skipped));
    GroupSum& sum = sums.groups[static_cast<size_t>(part.group)];
    sum.sum += kUnit * own.sum;
    sum.n += own.n;
  }
  std::erase_if(sums.groups, [](const GroupSum& g) { return g.n == 0; });
  return sums;
}

/// Controls are worse by intention, the floor is no way to store a cache, and states of recurrent layers are none.
bool is_weighed(const Variant& variant) {
  return variant.name != "scale_1.0" && !variant.is_floor() && !is_control(variant.name) && !variant.state.rounds();
}

bool is_file(const Variant& variant) { return variant.name == "file" || variant.name.starts_with("file_"); }

bool agrees(const PredictionDifference& d) { return d.finite && d.same_top; }

/// Right answers, by group.
GroupSums correct_sums(const Answers& answers, const PromptGroups& groups) {
  GroupSums sums;
  sums.groups.resize(static_cast<size_t>(groups.n_groups));
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].correct) continue;
    const int64_t group = groups.prompts[i].group;
    GroupSum& sum = group < 0 ? sums.fixed : sums.groups[static_cast<size_t>(group)];
    sum.sum += *answers[i].correct;
    sum.n += 1;
  }
  return sums;
}

/// A group of several prompts counts once, by how many of its answers are right.
Changes changes_of(const GroupSums& now, const GroupSums& before) {
  int64_t n_lost = 0, n_gained = 0;
  for (size_t i = 0; i < now.groups.size(); ++i) {
    n_lost += now.groups[i].sum < before.groups[i].sum;
    n_gained += now.groups[i].sum > before.groups[i].sum;
  }
  return mcnemar(n_lost, n_gained);
}

/// Fills a conclusion, part by part.
class Concluder {
 public:
  Concluder(const Evaluation& evaluation, Conclusion& out)
      : e_(evaluation), out_(out), n_looks_(evaluation.looks ? evaluation.looks->n_planned : 1) {
    out_.groups = group_prompts(e_.prompts);
    out_.groups.n_needed = fewest_groups(n_looks_);
    for (const Answers& answers : e_.answers) correct_.push_back(correct_sums(answers, out_.groups));
    const auto expects = [](const ModelAnswer& a) { return a.correct.has_value(); };
    if (e_.answers.empty() || std::ranges::none_of(e_.answers[0], expects)) correct_.clear();
  }

  void variants() {
    for (size_t i = 0; i < e_.compared.size(); ++i) out_.variants.push_back(evidence_of(i));
  }

  void floor() {
    const auto floor = named(kFloor);
    if (!floor || out_.variants[*floor].n_not_finite > 0) return;
    for (size_t i = 0; i < e_.compared.size(); ++i)
      if (i != *floor && out_.variants[i].n_not_finite == 0)
        out_.floor.push_back(above_floor(e_.compared[i], e_.compared[*floor]));
  }

  void pairs() {
    const auto one = named("scale_1.0"), file = named("file");
    for (size_t i = 0; one && i < e_.compared.size(); ++i)
      if (const Variant& v = e_.compared[i].variant; is_weighed(v))
        out_.pairs.push_back(pair_of(i, is_file(v) ? *one : file.value_or(*one)));
  }

 private:
  std::optional<size_t> named(const char* name) const {
    for (size_t i = 0; i < e_.compared.size(); ++i)
      if (e_.compared[i].variant.name == name) return i;
    return std::nullopt;
  }

  GroupSums kl_sums(const EvaluatedVariant& v) const {
    return sums_of(v.tokens, out_.groups, [&](size_t i) -> std::optional<double> {
      const PredictionDifference& d = v.tokens[i].difference;
      return d.finite ? std::optional(d.kl) : std::nullopt;
    });
  }

  std::optional<Estimate> slope_of(const EvaluatedVariant& v) const {
    const int64_t chunk = v.variant.state.chunk;
    if (chunk == 0) return std::nullopt;  // no token of a prompt reads a stored state
    const GroupSums sums = slope_sums(v.tokens, out_.groups, chunk);
    return sums.groups.empty() ? std::nullopt : std::optional(ratio_of(sums, n_looks_));
  }

  VariantEvidence evidence_of(size_t variant) const {
    const EvaluatedVariant& v = e_.compared[variant];
    VariantEvidence evidence{v.variant.name, ratio_of(kl_sums(v), n_looks_), {}, 0, {}, {}, {}};
    const auto agreement = [&](size_t i) -> std::optional<double> { return agrees(v.tokens[i].difference); };
    evidence.top1 =
        share_of(sums_of(v.tokens, out_.groups, agreement), static_cast<double>(out_.groups.n_counted), n_looks_);
    evidence.n_not_finite = std::ranges::count_if(v.tokens, [](const auto& t) { return !t.difference.finite; });
    if (v.variant.state.rounds() && evidence.n_not_finite == 0) evidence.kl_slope = slope_of(v);
    if (correct_.empty()) return evidence;
    const GroupSums& correct = correct_[variant + 1];
    // The same prompt twice has the same answer.
    const auto n = std::ranges::count_if(correct.groups, [](const GroupSum& g) { return g.n > 0; });
    evidence.correct = share_of(correct, static_cast<double>(n));
    evidence.changes = changes_of(correct, correct_[0]);
    return evidence;
  }

  PairEvidence pair_of(size_t variant, size_t other) const {
    const EvaluatedVariant &v = e_.compared[variant], &against = e_.compared[other];
    PairEvidence pair{v.variant.name, against.variant.name, {}, 0, 0, true, {}, 0, 0, {}};
    const GroupSums sums = sums_of(v.tokens, out_.groups, [&](size_t i) -> std::optional<double> {
      const PredictionDifference &a = v.tokens[i].difference, &b = against.tokens[i].difference;
      if (!a.finite || !b.finite) return std::nullopt;
      pair.same = pair.same && a.kl == b.kl && a.same_top == b.same_top;
      return a.kl - b.kl;
    });
    pair.kl = ratio_of(sums, n_looks_);
    pair.n_worse = std::ranges::count_if(sums.groups, [](const GroupSum& g) { return g.sum > 0; });
    pair.n_better = std::ranges::count_if(sums.groups, [](const GroupSum& g) { return g.sum < 0; });
    add_top1(v, against, pair);
    if (!correct_.empty()) pair.changes = changes_of(correct_[variant + 1], correct_[other + 1]);
    return pair;
  }

  void add_top1(const EvaluatedVariant& v, const EvaluatedVariant& against, PairEvidence& pair) const {
    const GroupSums sums = sums_of(v.tokens, out_.groups, [&](size_t i) -> std::optional<double> {
      const int change = agrees(v.tokens[i].difference) - agrees(against.tokens[i].difference);
      pair.n_lost += change < 0;
      pair.n_gained += change > 0;
      return change;
    });
    pair.top1 = ratio_of(sums, n_looks_);
    // Draws know nothing of changes that never, or hardly ever, happened among them.
    const auto n_changed = std::ranges::count_if(sums.groups, [](const GroupSum& g) { return g.sum != 0; });
    if (n_changed < out_.groups.n_needed) pair.top1.interval.reset();
  }

  FloorEvidence above_floor(const EvaluatedVariant& v, const EvaluatedVariant& floor) const {
    const GroupSums sums = kl_sums(v), least = kl_sums(floor);
    GroupSums differences = sums;
    differences.fixed.sum -= least.fixed.sum;
    double of_floor = least.fixed.sum;
    for (size_t i = 0; i < sums.groups.size(); ++i) {
      differences.groups[i].sum -= least.groups[i].sum;
      of_floor += least.groups[i].sum;
    }
    return {v.variant.name, ratio_of(differences, n_looks_),
            of_floor > 0 ? std::optional(quotient_of(sums, least, n_looks_)) : std::nullopt};
  }

  const Evaluation& e_;
  Conclusion& out_;
  int64_t n_looks_;
  std::vector<GroupSums> correct_;  // of the reference, then of each variant; empty where no prompt expects an answer
};

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
  Concluder concluder(evaluation, conclusion);
  concluder.variants();
  concluder.floor();
  concluder.pairs();
  return conclusion;
}

}  // namespace kvcal
