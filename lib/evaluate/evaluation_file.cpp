#include "evaluate/evaluation_file.h"

#include <cmath>

#include "artifact/json_text.h"

namespace kvcal {
namespace {

Json number(double x) { return json_number(static_cast<float>(x)); }

Json place_json(const Evaluation& evaluation, int64_t prompt, int64_t position) {
  return {{"prompt", evaluation.prompts[static_cast<size_t>(prompt)].id}, {"position", position}};
}

Json figures_json(const Evaluation& evaluation, const PredictionFigures& f) {
  Json out = {{"n_tokens", f.n_tokens}};
  if (f.n_not_finite > 0) out["n_not_finite"] = f.n_not_finite;
  if (f.n_not_finite == f.n_tokens) return out;
  Json worst = place_json(evaluation, f.kl.worst_prompt, f.kl.worst_position);
  worst["kl"] = number(f.kl.worst);
  out["kl"] = {
      {"mean", number(f.kl.mean)}, {"median", number(f.kl.median)}, {"p99", number(f.kl.p99)}, {"worst", worst}};
  out["top1"] = number(f.top1);
  if (f.n_predicted == 0) return out;
  out["nll"] = number(f.nll);
  out["nll_reference"] = number(f.nll_reference);
  return out;
}

Json answer_json(const ModelAnswer& answer) {
  Json out = {{"text", answer.text}, {"n_tokens", answer.tokens.size()}, {"ended", answer.ended}};
  if (answer.loop)
    out["loop"] = {
        {"begin", answer.loop->begin}, {"period", answer.loop->period}, {"repetitions", answer.loop->repetitions}};
  if (answer.correct) out["correct"] = *answer.correct;
  return out;
}

/// The reference's answer, and those of variants that are other ones.
Json answers_json(const Evaluation& evaluation, size_t prompt) {
  const ModelAnswer& reference = evaluation.answers[0][prompt];
  Json out = {
      {"prompt", evaluation.prompts[prompt].id}, {"reference", answer_json(reference)}, {"others", Json::object()}};
  for (size_t v = 0; v < evaluation.compared.size(); ++v) {
    const ModelAnswer& answer = evaluation.answers[1 + v][prompt];
    if (answer.tokens == reference.tokens) continue;
    Json& other = out["others"][evaluation.compared[v].variant.name] = answer_json(answer);
    other["first_divergence"] = first_other(reference, answer);
  }
  return out;
}

Json share_json(int64_t part, int64_t whole) {
  return whole > 0 ? number(static_cast<double>(part) / static_cast<double>(whole)) : Json(nullptr);
}

void add_answers(Json& out, const Evaluation& evaluation, const AnswerFigures& f) {
  out["correct"] = share_json(f.n_correct, f.n_expected);
  out["loops"] = f.n_loops;
  out["answers"] = {
      {"n", f.n_answers},
      {"n_equal", f.n_equal},
      {"agreement", number(f.agreement)},
      {"n_empty", f.n_empty},
      {"n_endless", f.n_endless},
      {"n_expected", f.n_expected},
      {"n_correct", f.n_correct},
      {"first_divergence",
       f.first_divergence ? place_json(evaluation, f.first_divergence_prompt, *f.first_divergence) : Json(nullptr)}};
}

/// null: a number that comes back is not finite.
Json errors_json(const LayerErrors& layer) {
  Json out = {{"index", layer.index}};
  const auto add = [&](const char* site, const std::optional<double>& error) {
    if (error) out[site] = std::isfinite(*error) ? number(*error) : Json(nullptr);
  };
  add("key", layer.key);
  add("value", layer.value);
  add("latent", layer.latent);
  return out;
}

Json variant_json(const Evaluation& evaluation, const VariantFigures& v) {
  Json out = {{"name", v.name}, {"format", v.format}};
  out.update(figures_json(evaluation, v.all));
  out["first_divergence"] = v.first_divergence
                                ? place_json(evaluation, v.first_divergence->prompt, v.first_divergence->position)
                                : Json(nullptr);
  if (v.answers) add_answers(out, evaluation, *v.answers);
  for (const LayerErrors& layer : v.errors) out["errors"].push_back(errors_json(layer));
  out["by_tag"] = Json::object();
  for (const auto& [tag, figures] : v.by_tag) out["by_tag"][tag] = figures_json(evaluation, figures);
  for (const auto& [tag, right] : v.right_by_tag)
    out["by_tag"][tag]["correct"] = share_json(right.n_correct, right.n_expected);
  out["by_position"] = Json::array();
  for (size_t bucket = 0; bucket < v.by_position.size(); ++bucket) {
    Json part = {{"from", bucket == 0 ? 0 : int64_t{1} << (bucket - 1)}};
    part.update(figures_json(evaluation, v.by_position[bucket]));
    out["by_position"].push_back(part);
  }
  return out;
}

Json layer_json(const LayerFigures& layer) {
  const PredictionFigures& f = layer.all;
  Json out = {{"index", layer.index},
              {"kl", f.n_not_finite < f.n_tokens ? number(f.kl.mean) : Json(nullptr)},
              {"top1", number(f.top1)}};
  if (f.n_predicted > 0) out["nll"] = number(f.nll);
  return out;
}

Json sample_json(const LayerSample& sample, const PredictionFigures& whole) {
  return {{"n_prompts", sample.n_prompts},
          {"n_tokens", whole.n_tokens},
          {"variant", sample.whole.variant.name},
          {"kl", whole.n_not_finite < whole.n_tokens ? number(whole.kl.mean) : Json(nullptr)}};
}

Json recipe_json(const EvaluatedRecipe& recipe) {
  Json out = {{"max_kl", number(recipe.limits.max_kl)},
              {"kl", number(recipe.found.measured.kl)},
              {"top1", number(recipe.found.measured.top1)},
              {"sum_kl", number(recipe.found.sum_kl)},
              {"bytes_per_token", recipe.found.bytes},
              {"n_measured", recipe.found.n_measured},
              {"layers", Json::array()}};
  if (recipe.limits.min_top1 > 0) out["min_agreement"] = number(recipe.limits.min_top1);
  for (const auto& [index, format] : recipe.layers) out["layers"].push_back({{"index", index}, {"format", format}});
  return out;
}

/// Mean KL (null: no logits were finite) and share of equal top tokens of every variant, prompt by prompt.
Json prompts_json(const Evaluation& evaluation, const EvaluationFigures& figures) {
  Json out = Json::array();
  for (size_t i = 0; i < evaluation.prompts.size(); ++i) {
    Json variants = Json::object();
    for (size_t v = 1; v < figures.variants.size(); ++v) {
      const PredictionFigures& f = figures.variants[v].by_prompt[i];
      variants[figures.variants[v].name] = {{"kl", f.n_not_finite < f.n_tokens ? number(f.kl.mean) : Json(nullptr)},
                                            {"top1", number(f.top1)}};
      if (f.n_not_finite > 0) variants[figures.variants[v].name]["n_not_finite"] = f.n_not_finite;
    }
    out.push_back({{"prompt", evaluation.prompts[i].id},
                   {"n_tokens", evaluation.prompts[i].ids.size()},
                   {"variants", std::move(variants)}});
  }
  return out;
}

Json estimate_json(const Estimate& estimate) {
  Json out = {{"value", number(estimate.value)}};
  if (estimate.interval) out["interval"] = {number(estimate.interval->low), number(estimate.interval->high)};
  return out;
}

Json changes_json(const Changes& c) { return {{"n_lost", c.n_lost}, {"n_gained", c.n_gained}, {"p", number(c.p)}}; }

Json pair_json(const PairEvidence& p) {
  Json out = {{"variant", p.variant},    {"against", p.against},       {"kl", estimate_json(p.kl)},
              {"n_worse", p.n_worse},    {"n_better", p.n_better},     {"top1", estimate_json(p.top1)},
              {"n_top1_lost", p.n_lost}, {"n_top1_gained", p.n_gained}};
  if (p.changes) out["correct_changes"] = changes_json(*p.changes);
  return out;
}

Json conclusion_json(const Conclusion& c) {
  Json out = {{"n_groups", c.groups.n_groups},
              {"n_tokens", c.groups.n_counted},
              {"n_common", c.groups.common},
              {"variants", Json::object()},
              {"pairs", Json::array()}};
  for (const VariantEvidence& v : c.variants) {
    Json& variant = out["variants"][v.name] = {{"top1", estimate_json(v.top1)}};
    if (v.n_not_finite == 0) variant["kl"] = estimate_json(v.kl);
    if (v.kl_slope) variant["kl_slope"] = estimate_json(*v.kl_slope);
    if (v.correct) variant["correct"] = estimate_json(*v.correct);
    if (v.changes) variant["correct_changes"] = changes_json(*v.changes);
  }
  for (const FloorEvidence& f : c.floor)
    if (f.times) out["times_floor"][f.variant] = estimate_json(*f.times);
  for (const PairEvidence& p : c.pairs) {
    if (c.of(p.variant).n_not_finite > 0 || c.of(p.against).n_not_finite > 0) continue;
    out["pairs"].push_back(pair_json(p));
  }
  return out;
}

}  // namespace

std::string evaluation_text(const EvaluationRecord& record, const Evaluation& evaluation,
                            const EvaluationFigures& figures) {
  int64_t n_tokens = 0;
  for (const PromptTokens& p : evaluation.prompts) n_tokens += static_cast<int64_t>(p.ids.size());
  Json out = {{"$schema", kEvaluationSchemaFile}, {"format", kEvaluationFormat}, {"version", kEvaluationVersion}};
  out["tool_version"] = record.tool_version;
  out["model"] = to_json(evaluation.model);
  out["prompts"] = {
      {"sha256", evaluation.prompts_sha256}, {"n_prompts", evaluation.prompts.size()}, {"n_tokens", n_tokens}};
  out["precision"] = record.precision;
  out["isa"] = evaluation.isa;
  if (record.query) out["query"] = true;
  if (record.max_new_tokens > 0) out["max_new_tokens"] = record.max_new_tokens;
  if (record.keep_recent > 0) out["keep_recent"] = record.keep_recent;
  if (!record.attention.empty()) out["attention"] = record.attention;
  if (record.state_chunk != 1) out["state_chunk"] = record.state_chunk;
  out["files"] = Json::array();
  for (const EvaluatedFile& f : record.files) out["files"].push_back({{"name", f.name}, {"sha256", f.sha256}});
  if (const auto& l = evaluation.looks)
    out["until_decided"] = {{"max_kl", number(l->max_kl)},
                            {"n_looks", l->n_made},
                            {"n_planned", l->n_planned},
                            {"n_prompts_given", l->n_prompts}};
  out["reference_twice"] = {{"n_tokens", evaluation.n_tokens_twice}, {"kl", 0}};  // evaluate() ends otherwise
  out["variants"] = Json::array();
  for (const VariantFigures& v : figures.variants) out["variants"].push_back(variant_json(evaluation, v));
  out["by_prompt"] = prompts_json(evaluation, figures);
  out["conclusion"] = conclusion_json(figures.conclusion);
  if (!figures.layers.empty()) {
    out["layers"] = Json::array();
    for (const LayerFigures& layer : figures.layers) out["layers"].push_back(layer_json(layer));
    if (evaluation.sample) out["layers_sample"] = sample_json(*evaluation.sample, figures.whole);
  }
  if (evaluation.recipe) {
    out["recipe"] = recipe_json(*evaluation.recipe);
    out["recipe"]["formats"] = record.choose;
  }
  if (!evaluation.answers.empty()) {
    out["answers"] = Json::array();
    for (size_t i = 0; i < evaluation.prompts.size(); ++i) out["answers"].push_back(answers_json(evaluation, i));
  }
  return json_text(out);
}

}  // namespace kvcal
