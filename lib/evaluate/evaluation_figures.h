// What is said of a whole evaluation: of each variant in all and by part, and of each layer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/conclusion.h"

namespace kvcal {

/// Of the rows of one cache, as RowErrors has them: of keys and values, or of rows of MLA.
struct LayerErrors {
  int64_t index = 0;  // of the layer
  std::optional<double> key, value, latent;
};

/// Figures of a variant over all tokens and by part.
struct VariantFigures {
  std::string name, format;
  PredictionFigures all;
  std::optional<FirstDifference> first_divergence;
  std::map<std::string, PredictionFigures> by_tag;
  std::vector<PredictionFigures> by_position;
  std::vector<PredictionFigures> by_prompt;  // as Evaluation::prompts
  std::optional<AnswerFigures> answers;
  std::map<std::string, RightAnswers> right_by_tag;
  std::vector<LayerErrors> errors;  // of the layers whose cache it stores otherwise
};

/// A layer whose cache alone was rounded.
struct LayerFigures {
  int64_t index = 0;
  PredictionFigures all;
};

struct EvaluationFigures {
  std::vector<VariantFigures> variants;  // the reference, compared with itself, then those of Evaluation::compared
  std::vector<LayerFigures> layers;      // by index
  std::string whole_name;                // of the variant that all those layers together are
  PredictionFigures whole;               // its figures, on the prompts that layers were measured on
  Conclusion conclusion;
};

EvaluationFigures figures_of(const Evaluation& evaluation);

}  // namespace kvcal
