// What an evaluation that evaluate wrote cannot say: figures, counts and lists against each other.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "artifact/saved_evaluation.h"
#include "base/number_text.h"

namespace kvcal {
namespace {

using About = EvaluationFault::About;

/// Figures are rounded to float32, each by itself.
constexpr double kRounding = 1e-6;

std::string number_of(double x) { return formatted("%.9g", x); }

class Faults {
 public:
  explicit Faults(const SavedEvaluation& evaluation) : e_(evaluation) {}

  std::vector<EvaluationFault> all() {
    variants();
    for (size_t i = 0; i < e_.variants.size(); ++i) variant(e_.variants[i], "variants[" + std::to_string(i) + "]");
    prompts();
    if (e_.conclusion) conclusion(*e_.conclusion);
    layers();
    if (e_.recipe) recipe(*e_.recipe);
    answers();
    return std::move(found_);
  }

 private:
  void add(About about, std::string path, std::string what, std::string expected, std::string actual) {
    found_.push_back({about, std::move(path), std::move(what), std::move(expected), std::move(actual)});
  }

  void at_most(About about, const std::string& path, const char* what, double figure, double most) {
    if (figure > most + std::abs(most) * kRounding)
      add(about, path, what, "at most " + number_of(most), number_of(figure));
  }

  void equal(const std::string& path, const char* what, double actual, double expected) {
    if (actual != expected) add(About::Counts, path, what, number_of(expected), number_of(actual));
  }

  void variants() {
    if (e_.variants.empty() || e_.variants.front().name != "reference")
      add(About::Variants, "variants[0].name", "the first variant", "'reference'",
          e_.variants.empty() ? "none" : quoted(e_.variants.front().name));
    std::set<std::string> names;
    for (size_t i = 0; i < e_.variants.size(); ++i)
      if (!names.insert(e_.variants[i].name).second)
        add(About::Variants, "variants[" + std::to_string(i) + "].name", "a variant's name", "one that is not taken",
            quoted(e_.variants[i].name));
    std::set<std::string> files;
    for (size_t i = 0; i < e_.files.size(); ++i)
      if (!files.insert(e_.files[i].first).second)
        add(About::Variants, "files[" + std::to_string(i) + "].name", "a file's name", "one that is not taken",
            quoted(e_.files[i].first));
  }

  void estimate(const std::optional<SavedEstimate>& s, const std::string& path, double least, double most) {
    if (!s) return;
    if (s->value < least || s->value > most)
      add(About::Figures, path, "a figure", number_of(least) + " to " + number_of(most), number_of(s->value));
    if (!s->interval) return;
    at_most(About::Figures, path, "where an interval begins", s->interval->first, s->interval->second);
    at_most(About::Figures, path, "where an interval ends", s->interval->second, most);
    at_most(About::Figures, path, "the least that there is", least, s->interval->first);
  }

  const SavedVariant* known(const std::string& name, const std::string& path) {
    const auto found = std::ranges::find(e_.variants, name, &SavedVariant::name);
    if (found != e_.variants.end()) return &*found;
    add(About::Variants, path, "a variant's name", "one of 'variants'", quoted(name));
    return nullptr;
  }

  /// Of the same tokens where none is left out, each sum in an order of its own.
  void concluded(const SavedConclusion::Variant& v, const SavedVariant& of, int64_t n_tokens, const std::string& path) {
    if (!v.kl || !of.all.kl) return;
    at_most(About::Figures, path + ".kl", "the mean KL", v.kl->value, of.all.kl->worst);
    const double mean = of.all.kl->mean;
    if (n_tokens == of.all.n_tokens && std::abs(v.kl->value - mean) > 10 * kRounding * mean)
      add(About::Figures, path + ".kl", "the mean KL of the same tokens", number_of(mean), number_of(v.kl->value));
  }

  /// Of states alone; from one token to the next the KL grows by no more than the worst.
  void slope(const std::string& name, const SavedConclusion::Variant& v, const std::string& path) {
    const auto of = std::ranges::find(e_.variants, name, &SavedVariant::name);
    if (!name.starts_with("state_") || !v.kl || of == e_.variants.end() || !of->all.kl)
      return add(About::Figures, path, "growth of the KL", "none, of a variant that rounds no state or has no mean KL",
                 "given");
    const double most = 1000 * of->all.kl->worst * (1 + kRounding);
    estimate(v.kl_slope, path, -most, most);
    if (!v.kl_slope->interval) return;
    at_most(About::Figures, path, "where an interval begins", v.kl_slope->interval->first, v.kl_slope->value);
    at_most(About::Figures, path, "a figure in its interval", v.kl_slope->value, v.kl_slope->interval->second);
  }

  void conclusion(const SavedConclusion& c) {
    constexpr double kAny = std::numeric_limits<double>::max();
    for (const auto& [name, v] : c.variants) {
      const std::string path = "conclusion.variants." + name;
      if (const SavedVariant* of = known(name, path)) concluded(v, *of, c.n_tokens, path);
      estimate(v.kl, path + ".kl", 0, kAny);
      estimate(v.top1, path + ".top1", 0, 1);
      estimate(v.correct, path + ".correct", 0, 1);
      if (v.kl_slope) slope(name, v, path + ".kl_slope");
    }
    for (const auto& [name, times] : c.times_floor) {
      known(name, "conclusion.times_floor." + name);
      estimate(times, "conclusion.times_floor." + name, 0, kAny);
    }
    for (size_t i = 0; i < c.pairs.size(); ++i) {
      const std::string path = "conclusion.pairs[" + std::to_string(i) + "]";
      for (const std::string& name : {c.pairs[i].variant, c.pairs[i].against}) known(name, path);
      estimate(c.pairs[i].kl, path + ".kl", -kAny, kAny);
    }
  }

  void figures(const SavedFigures& f, const std::string& path, bool of_reference) {
    const auto tokens = static_cast<double>(f.n_tokens);
    at_most(About::Figures, path + ".n_not_finite", "tokens after which no logit is finite",
            static_cast<double>(f.n_not_finite), tokens);
    if (f.kl.has_value() != (f.n_tokens > f.n_not_finite))
      add(About::Figures, path + ".kl", "a KL", f.n_tokens > f.n_not_finite ? "one" : "none, of no finite logits",
          f.kl ? "given" : "missing");
    if (f.top1.has_value() != f.kl.has_value())
      add(About::Figures, path + ".top1", "the share of equal top tokens", f.kl ? "one" : "none",
          f.top1 ? "given" : "missing");
    if (f.nll.has_value() != f.nll_reference.has_value())
      add(About::Figures, path + ".nll", "the pair nll and nll_reference", "both or none", "one");
    if (!f.kl) return;
    at_most(About::Figures, path + ".kl.median", "the median KL", f.kl->median, f.kl->p99);
    at_most(About::Figures, path + ".kl.p99", "the KL of 99 %", f.kl->p99, f.kl->worst);
    at_most(About::Figures, path + ".kl.mean", "the mean KL", f.kl->mean, f.kl->worst);
    if (of_reference && f.kl->worst != 0)
      add(About::Figures, path + ".kl", "the reference's KL from itself", "0", number_of(f.kl->worst));
  }

  void variant(const SavedVariant& v, const std::string& path) {
    const bool of_reference = v.name == "reference";
    figures(v.all, path, of_reference);
    equal(path + ".n_tokens", "the number of tokens", static_cast<double>(v.all.n_tokens),
          static_cast<double>(e_.n_tokens));
    for (const auto& [tag, f] : v.by_tag) {
      figures(f, path + ".by_tag." + tag, of_reference);
      at_most(About::Counts, path + ".by_tag." + tag + ".n_tokens", "tokens of a tag", static_cast<double>(f.n_tokens),
              static_cast<double>(v.all.n_tokens));
    }
    positions(v, path, of_reference);
    if (v.answers) counts(*v.answers, path + ".answers");
    errors(v, path + ".errors", of_reference);
  }

  /// The reference stores rows as they are; of MLA there is one row for key and value.
  void errors(const SavedVariant& v, const std::string& path, bool of_reference) {
    if (of_reference && !v.errors.empty())
      add(About::Figures, path, "errors of the reference's rows", "none", std::to_string(v.errors.size()));
    for (size_t i = 0; i < v.errors.size(); ++i) {
      const SavedRowErrors& e = v.errors[i];
      const std::string place = path + "[" + std::to_string(i) + "]";
      index(e.index, i == 0 ? -1 : v.errors[i - 1].index, place + ".index", About::Layers);
      if (e.latent.has_value() == (e.key || e.value))
        add(About::Figures, place, "errors of a layer", "of keys or values, or of latent rows",
            e.latent ? "of both" : "of none");
    }
  }

  void positions(const SavedVariant& v, const std::string& path, bool of_reference) {
    double sum = 0;
    for (size_t i = 0; i < v.by_position.size(); ++i) {
      const auto& [from, f] = v.by_position[i];
      const std::string place = path + ".by_position[" + std::to_string(i) + "]";
      figures(f, place, of_reference);
      sum += static_cast<double>(f.n_tokens);
      if (i > 0 && from <= v.by_position[i - 1].first)
        add(About::Counts, place + ".from", "where the part begins", "more than the part before", std::to_string(from));
    }
    equal(path + ".by_position", "the sum of tokens by position", sum, static_cast<double>(v.all.n_tokens));
  }

  void counts(const SavedAnswerCounts& c, const std::string& path) {
    equal(path + ".n", "the number of answers", static_cast<double>(c.n), static_cast<double>(e_.n_prompts));
    const auto part = [&](const char* name, int64_t count, int64_t most) {
      at_most(About::Counts, path + "." + name, "a count of answers", static_cast<double>(count),
              static_cast<double>(most));
    };
    part("n_equal", c.n_equal, c.n);
    part("n_empty", c.n_empty, c.n);
    part("n_endless", c.n_endless, c.n);
    part("n_expected", c.n_expected, c.n);
    part("n_correct", c.n_correct, c.n_expected);
  }

  /// Prompt by prompt the same tokens and sums as all prompts together.
  void prompts() {
    if (e_.by_prompt.empty()) return;
    equal("by_prompt", "the number of prompts", static_cast<double>(e_.by_prompt.size()),
          static_cast<double>(e_.n_prompts));
    double n_tokens = 0;
    std::set<std::string> ids;
    for (size_t i = 0; i < e_.by_prompt.size(); ++i) {
      n_tokens += static_cast<double>(e_.by_prompt[i].n_tokens);
      if (!ids.insert(e_.by_prompt[i].prompt).second)
        add(About::Counts, "by_prompt[" + std::to_string(i) + "].prompt", "a prompt", "one that is not there yet",
            quoted(e_.by_prompt[i].prompt));
    }
    equal("by_prompt", "the sum of tokens by prompt", n_tokens, static_cast<double>(e_.n_tokens));
    for (const SavedVariant& v : e_.variants)
      if (v.name != "reference") prompts_of(v);
  }

  void prompts_of(const SavedVariant& v) {
    double sum = 0, n = 0;
    for (size_t i = 0; i < e_.by_prompt.size(); ++i) {
      const SavedPrompt& p = e_.by_prompt[i];
      const auto found = std::ranges::find(p.variants, v.name, [](const auto& figures) { return figures.first; });
      if (found == p.variants.end())
        return add(About::Variants, "by_prompt[" + std::to_string(i) + "].variants", "a variant's figures",
                   "those of " + quoted(v.name), "none");
      const auto finite = static_cast<double>(p.n_tokens - found->second.n_not_finite);
      sum += found->second.kl.value_or(0) * finite;
      n += finite;
    }
    const double mean = v.all.kl ? v.all.kl->mean : 0;
    if (n > 0 && !(std::abs(sum / n - mean) <= kRounding * mean))
      add(About::Figures, "by_prompt", "the mean KL of " + v.name + " over prompts", number_of(mean),
          number_of(sum / n));
  }

  /// Indexes of layers ascend, and the model has them.
  void index(int64_t index, int64_t before, const std::string& path, About about) {
    if (index <= before)
      add(about, path, "a layer", "more than " + std::to_string(before), std::to_string(index));
    else if (index >= e_.model.n_layers)
      add(about, path, "a layer", "less than the model's " + std::to_string(e_.model.n_layers), std::to_string(index));
  }

  void layers() {
    for (size_t i = 0; i < e_.layers.size(); ++i)
      index(e_.layers[i].index, i == 0 ? -1 : e_.layers[i - 1].index, "layers[" + std::to_string(i) + "].index",
            About::Layers);
    if (e_.n_sampled_prompts && *e_.n_sampled_prompts >= e_.n_prompts)
      add(About::Layers, "layers_sample.n_prompts", "a part of the prompts",
          "less than all " + std::to_string(e_.n_prompts), std::to_string(*e_.n_sampled_prompts));
    if (!e_.layers.empty() && static_cast<int64_t>(e_.layers.size()) != e_.model.n_kv_layers)
      add(About::Layers, "layers", "the number of layers with a cache", std::to_string(e_.model.n_kv_layers),
          std::to_string(e_.layers.size()));
  }

  void recipe(const SavedRecipe& r) {
    for (size_t i = 0; i < r.layers.size(); ++i) {
      const std::string path = "recipe.layers[" + std::to_string(i) + "]";
      index(r.layers[i].first, i == 0 ? -1 : r.layers[i - 1].first, path + ".index", About::Recipe);
      if (!is_recipe_format(r.layers[i].second))
        add(About::Recipe, path + ".format", "a format of a cache", "one that evaluate knows",
            quoted(r.layers[i].second));
    }
    if (static_cast<int64_t>(r.layers.size()) != e_.model.n_kv_layers)
      add(About::Recipe, "recipe.layers", "the number of layers with a cache", std::to_string(e_.model.n_kv_layers),
          std::to_string(r.layers.size()));
    at_most(About::Recipe, "recipe.kl", "the KL that was measured", r.kl, r.max_kl);
  }

  void answers() {
    if (!e_.answers.empty())
      equal("answers", "the number of answers", static_cast<double>(e_.answers.size()),
            static_cast<double>(e_.n_prompts));
    std::set<std::string> prompts, names;
    for (const SavedVariant& v : e_.variants) names.insert(v.name);
    for (size_t i = 0; i < e_.answers.size(); ++i) {
      const std::string path = "answers[" + std::to_string(i) + "]";
      if (!prompts.insert(e_.answers[i].prompt).second)
        add(About::Counts, path + ".prompt", "a prompt", "one that has no answer yet", quoted(e_.answers[i].prompt));
      for (const auto& [name, answer] : e_.answers[i].others) {
        if (!names.contains(name) || name == "reference")
          add(About::Counts, path + ".others", "a variant that answers", "one of variants", quoted(name));
        at_most(About::Counts, path + ".others." + name + ".first_divergence", "the token of divergence",
                static_cast<double>(answer.first_divergence),
                static_cast<double>(std::min(answer.n_tokens, e_.answers[i].reference.n_tokens)));
      }
    }
  }

  const SavedEvaluation& e_;
  std::vector<EvaluationFault> found_;
};

/// Of keys or of values alone, too.
bool is_format_of_rows(std::string_view name) {
  constexpr std::array<std::string_view, 15> kNames = {"bf16",
                                                       "fp8_e4m3",
                                                       "fp8_e4m3_per_head",
                                                       "fp8_e4m3fnuz",
                                                       "fp8_e5m2",
                                                       "int8",
                                                       "int8_per_head",
                                                       "int8_per_channel",
                                                       "nvfp4",
                                                       "fp8_e4m3_affine",
                                                       "nvfp4_affine",
                                                       "nvfp4_rotated",
                                                       "fp8_per_token_head",
                                                       "int8_per_token_head",
                                                       "int4_per_token_head"};
  return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace

bool is_recipe_format(std::string_view name) {
  // What evaluate --choose takes (evaluate/formats.cpp), and the cache as it is.
  if (const size_t colon = name.find(':'); colon != name.npos) {
    const std::string_view key = name.substr(0, colon), value = name.substr(colon + 1);
    return is_format_of_rows(key) && is_format_of_rows(value) && !(key == "bf16" && value == "bf16");
  }
  return name == "turboquant_k8v4" || is_format_of_rows(name);
}

std::vector<EvaluationFault> faults_of(const SavedEvaluation& evaluation) { return Faults(evaluation).all(); }

}  // namespace kvcal
