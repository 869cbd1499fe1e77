#include "evaluation_conclusion.h"

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/number_text.h"
#include "evaluation_limits.h"
#include "export/serve.h"
#include "next_step.h"
#include "report/estimates.h"

namespace kvcal {
namespace {

/// Lines of at most 80 columns, the later ones indented. Words are not broken.
Lines folded(const std::string& sentence) {
  constexpr size_t kColumns = 80;
  Lines lines;
  std::string line;
  for (size_t at = 0; at < sentence.size();) {
    const size_t end = std::min(sentence.find(' ', at), sentence.size());
    if (!line.empty() && line.size() + 1 + end - at > kColumns) {
      lines.add(line);
      line = " ";
    }
    line += (line.empty() ? "" : " ") + sentence.substr(at, end - at);
    at = end + 1;
  }
  lines.add(line);
  return lines;
}

std::string said(const std::string& variant) { return variant == "scale_1.0" ? "scale 1.0" : variant; }

/// With digits that tell a share near one from it.
std::string percent(double share) { return formatted(share > 0.999 && share < 1 ? "%.3f" : "%.1f", 100 * share); }

/// What the lines below are of, and what counts less often there than in the table.
Lines evidence_text(const PromptGroups& groups, const std::optional<Looks>& looks) {
  const auto n = static_cast<int64_t>(groups.prompts.size());
  std::string text = "shown by " + counted(n, "prompt") + " (" + counted(groups.n_counted, "token");
  if (const int64_t repeated = groups.n_tokens - groups.n_counted; repeated > 0)
    text += ", without " + grouped(repeated) + " that repeat how others begin";
  text += ")";
  if (groups.n_groups < n)
    text += ", " + grouped(groups.n_groups) + " of them independent: those that are mostly the same count as one";
  if (groups.common > 0 && groups.n_groups > 1)
    text += ", for all that begin with the same " + counted(groups.common, "token");
  if (looks && looks->n_planned > 1)
    text += "; look " + std::to_string(looks->n_made) + " of at most " + std::to_string(looks->n_planned) + ", of " +
            counted(looks->n_prompts, "prompt") + " given; intervals hold at all looks together";
  return folded(text + ":");
}

std::string top1_text(const Estimate& top1) {
  std::string text = "same top token " + percent(top1.value) + " %";
  if (top1.interval) text += " (" + percent(top1.interval->low) + " to " + percent(top1.interval->high) + ")";
  return text;
}

std::string slope_text(const Estimate& slope) {
  const auto& i = slope.interval;
  return "; " + slope_sentence(i ? std::optional(std::pair(i->low, i->high)) : std::nullopt, estimate_text(slope));
}

/// A variant against the reference.
Lines variant_text(const VariantEvidence& v) {
  if (v.n_not_finite > 0) return {};  // the notes above say so
  return folded(said(v.name) + ": mean KL " + estimate_text(v.kl) + ", " + top1_text(v.top1) +
                (v.kl_slope ? slope_text(*v.kl_slope) : ""));
}

std::string of_groups(int64_t n, const Conclusion& c) {
  const bool alone = c.groups.n_groups == static_cast<int64_t>(c.groups.prompts.size());
  return std::to_string(n) + " of " + std::to_string(c.groups.n_groups) + (alone ? "" : " groups");
}

std::string top1_pair(const VariantEvidence& a, const VariantEvidence& b) {
  return "; same top token " + percent(a.top1.value) + " against " + percent(b.top1.value) + " %";
}

/// Of groups where prompts were joined, as the test counts them.
std::string changes_text(const Changes& changes, const std::string& variant, const std::string& against,
                         const PromptGroups& groups) {
  const std::string lost = grouped(changes.n_lost), gained = grouped(changes.n_gained);
  std::string text = "right answers: " + variant;
  if (groups.any_joined)
    text += " has fewer than " + against + " in " + lost + " groups of like prompts and more in " + gained;
  else
    text += " loses " + lost + " of " + against + " and gains " + gained;
  return text + (changes.n_lost + changes.n_gained > 0 ? formatted(" (McNemar's p %.2g)", changes.p) : "");
}

Lines answers_text(const Conclusion& c) {
  Lines text;
  for (const VariantEvidence& v : c.variants)
    if (v.changes && !is_control(v.name))
      text += folded(changes_text(*v.changes, said(v.name), "the reference", c.groups));
  for (const PairEvidence& p : c.pairs)
    if (p.changes) text += folded(changes_text(*p.changes, said(p.variant), said(p.against), c.groups));
  return text;
}

Lines pair_text(const PairEvidence& p, const Conclusion& c) {
  const VariantEvidence &a = c.of(p.variant), &b = c.of(p.against);
  if (a.n_not_finite > 0 || b.n_not_finite > 0) return {};
  const std::string one = said(p.variant), other = said(p.against);
  if (p.same) return folded(one + " has the KL of " + other + " at every token");
  const bool worse = p.kl.value > 0;
  const std::string counts =
      (worse ? "worse in " + of_groups(p.n_worse, c) : "better in " + of_groups(p.n_better, c)) + top1_pair(a, b);
  if (!p.kl.interval || (p.kl.interval->low <= 0 && p.kl.interval->high >= 0))
    return folded("no difference of " + one + " and " + other + " shown: " + estimate_text(p.kl) + " nats a token, " +
                  counts);
  const Estimate size = worse ? p.kl : Estimate{-p.kl.value, Interval{-p.kl.interval->high, -p.kl.interval->low}};
  return folded(one + " is " + (worse ? "worse" : "better") + " than " + other + " by " + estimate_text(size) +
                " nats a token, " + counts);
}

std::string times_text(const Estimate& times) {
  if (!times.interval || !is_open_above(times.value, times.interval->high)) return estimate_text(times);
  const auto alone = [](double x) { return estimate_text({x, std::nullopt}); };
  return alone(times.value) + " (95 %: " + alone(times.interval->low) + " or more)";
}

/// How far the unrounded cache is from itself, and the variants from that.
Lines floor_text(const Conclusion& c) {
  if (c.floor.empty()) return {};
  Lines text = variant_text(c.of(kFloor));
  for (const auto& [name, difference, times] : c.floor) {
    if (is_control(name)) continue;
    const bool is_above = difference.interval && difference.interval->low > 0,
               is_below = difference.interval && difference.interval->high < 0;
    text += folded(said(name) + " is " +
                   (is_above   ? "above"
                    : is_below ? "below"
                               : "not shown to differ from") +
                   " the floor" + (times ? ": " + times_text(*times) + " times its KL" : ", whose KL is 0"));
  }
  return text;
}

/// Which of the two should be served: the finite one, then what is shown to be better, then what the file says.
const VariantEvidence& better_one(const ConclusionContext& context, const Conclusion& c) {
  const VariantEvidence& one = c.of("scale_1.0");
  const PairEvidence* pair = c.pair("file");
  if (!pair) return one;
  const VariantEvidence& file = c.of("file");
  if ((one.n_not_finite > 0) != (file.n_not_finite > 0)) return one.n_not_finite > 0 ? file : one;
  if (pair->kl.interval && pair->kl.interval->low > 0) return one;
  if (pair->kl.interval && pair->kl.interval->high < 0) return file;
  return context.file_is_needed ? file : one;
}

/// What to do where no command does it.
Lines advice(const std::string& what) { return folded("next: " + what); }

/// Nothing where nothing follows that is known to be possible.
Lines after_recipe(const ConclusionContext& context, const EvaluatedRecipe& recipe) {
  const auto is_exported = [&](const auto& layer) { return layer.second == "bf16" || layer.second == context.dtype; };
  const auto is_kept = [](const auto& layer) { return layer.second == "bf16"; };
  if (context.scales.empty() || !std::ranges::all_of(recipe.layers, is_exported) ||
      std::ranges::all_of(recipe.layers, is_kept))
    return {};
  return step("serve by the recipe", "kvcal export " + shell_word(context.scales) + " --model " +
                                         shell_word(context.model) + " --recipe " + shell_word(context.out) +
                                         " -o OUT");
}

/// Where rounding changes more than it may.
Lines after_damage(const ConclusionContext& context, const std::string& why) {
  const std::string model = shell_word(context.model) + context.prompts;
  if (context.scales.empty()) return step("measure scales" + why, "kvcal calibrate " + model);
  return step("find layers to keep in 16 bits" + why,
              "kvcal evaluate " + model + " --scales " + shell_word(context.scales) + " --choose " + context.dtype +
                  ",bf16 --max-kl " + formatted("%.3g", context.max_kl) + " -o recipe.json");
}

bool keeps_shares(const ConclusionContext& context, const VariantEvidence& v, const PromptGroups& groups) {
  const auto keeps = [&](const std::optional<double>& least, const std::optional<Estimate>& share) {
    return !least || (share && judge({"", *least, false}, v.name, *share, groups).kept == Kept::Yes);
  };
  return keeps(context.min_agreement, v.top1) && keeps(context.min_correct, v.correct);
}

/// At scale 1.0 servers have floating-point types alone.
Lines after_success(const ConclusionContext& context, bool is_file) {
  if (is_file) return serve_with_scales(*context.file, {context.scales, context.model, context.folder, {}, false});
  if (!context.dtype.starts_with("fp8")) return {};
  std::string how = context.scales.empty() ? "as it is" : "without the file";
  if (has_scales(context.folder)) how = "without the scales that the checkpoint has";
  return advice("serve at scale 1.0, " + how);
}

}  // namespace

Lines shown_text(const Conclusion& conclusion, const std::optional<Looks>& looks) {
  Lines text("");
  text += evidence_text(conclusion.groups, looks) + variant_text(conclusion.of("scale_1.0"));
  if (conclusion.pair("file")) text += variant_text(conclusion.of("file"));
  for (const PairEvidence& pair : conclusion.pairs) text += pair_text(pair, conclusion);
  for (const VariantEvidence& v : conclusion.variants)
    if (v.kl_slope) text += variant_text(v);
  return text + answers_text(conclusion) + floor_text(conclusion);
}

Lines next_text(const ConclusionContext& context, const Evaluation& evaluation, const Conclusion& c) {
  if (evaluation.recipe) return after_recipe(context, *evaluation.recipe);
  const VariantEvidence& v = better_one(context, c);
  const std::string limit = formatted("%.3g", context.max_kl);
  if (v.n_not_finite > 0) return after_damage(context, "");
  if (!v.kl.interval) return advice("evaluate on at least " + missing_prompts_text(c.groups) + ", unlike these");
  if (v.kl.interval->low > context.max_kl) return after_damage(context, ", as this mean KL is above " + limit);
  if (v.kl.interval->high <= context.max_kl)
    return keeps_shares(context, v, c.groups) ? after_success(context, v.name == "file") : Lines{};
  const auto more = more_prompts(v.kl, context.max_kl, c.groups);
  const std::string number = more ? more_prompts_text(*more) : "many more prompts";
  return advice("evaluate on " + number + ", to tell whether the mean KL is above " + limit);
}

}  // namespace kvcal
