#include "evaluate/evaluation_figures.h"

namespace kvcal {
namespace {

VariantFigures figures_of(const std::string& name, const std::string& format, const std::vector<ComparedToken>& tokens,
                          const std::vector<PromptTokens>& prompts) {
  const auto tags_of = [&](const ComparedToken& t) { return prompts[static_cast<size_t>(t.prompt)].tags; };
  return {name,
          format,
          figures_of(tokens),
          first_difference(tokens),
          figures_by(tokens, tags_of),
          figures_by_position(tokens),
          figures_by_prompt(tokens, prompts.size()),
          {},
          {},
          {}};
}

std::vector<LayerErrors> errors_of(const EvaluatedVariant& v, const std::vector<int>& layers) {
  std::vector<LayerErrors> all;
  for (size_t c = 0; c < layers.size(); ++c) {
    const auto of = [&](CacheSite site) { return v.errors.of(static_cast<int>(c), site); };
    const LayerErrors errors{layers[c], of(CacheSite::Key), of(CacheSite::Value), of(CacheSite::Latent)};
    if (errors.key || errors.value || errors.latent) all.push_back(errors);
  }
  return all;
}

/// The reference as a variant of itself.
std::vector<ComparedToken> with_itself(std::vector<ComparedToken> tokens) {
  for (ComparedToken& token : tokens) {
    const double nll = token.difference.nll_reference;
    token.difference = {.nll_reference = nll, .nll_variant = nll};
  }
  return tokens;
}

}  // namespace

EvaluationFigures figures_of(const Evaluation& evaluation) {
  EvaluationFigures figures;
  figures.variants.push_back(
      figures_of("reference", "none", with_itself(evaluation.compared.at(0).tokens), evaluation.prompts));
  for (const EvaluatedVariant& v : evaluation.compared) {
    figures.variants.push_back(figures_of(v.variant.name, v.variant.format, v.tokens, evaluation.prompts));
    figures.variants.back().errors = errors_of(v, evaluation.cache_layers);
  }
  for (size_t i = 0; i < evaluation.answers.size(); ++i) {
    figures.variants[i].answers = figures_of(evaluation.answers[0], evaluation.answers[i]);
    figures.variants[i].right_by_tag = right_by_tag(evaluation.answers[i], evaluation.prompts);
  }
  const EvaluatedVariant& whole = evaluation.sample ? evaluation.sample->whole : evaluation.compared[evaluation.whole];
  figures.whole_name = whole.variant.name;
  figures.whole = figures_of(whole.tokens);
  for (const EvaluatedVariant& v : evaluation.layers) figures.layers.push_back({v.variant.layer, figures_of(v.tokens)});
  figures.conclusion = conclude(evaluation);
  return figures;
}

}  // namespace kvcal
