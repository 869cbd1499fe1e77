// evaluation.json: what was compared, and by how much predictions differ.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/evaluate.h"
#include "stats/model_info.h"

namespace kvcal {

constexpr const char* kEvaluationFormat = "kv-cache-evaluation";
constexpr const char* kEvaluationVersion = "1.0";
constexpr const char* kEvaluationSchemaFile = "evaluation.v1.schema.json";  // in schemas/

/// A file whose scales or ranges variants were made of.
struct EvaluatedFile {
  std::string name;  // "file", "file_2", ...; "statistics"
  std::string sha256;
};

struct EvaluationRecord {
  std::string tool_version, precision;
  std::vector<EvaluatedFile> files;
};

/// Figures of a variant over all tokens and by part.
struct VariantFigures {
  std::string name, format;
  PredictionFigures all;
  std::optional<FirstDifference> first_divergence;
  std::map<std::string, PredictionFigures> by_tag;
  std::vector<PredictionFigures> by_position;
};

/// A layer whose cache alone was rounded.
struct LayerFigures {
  int64_t index = 0;
  PredictionFigures all;
};

struct EvaluationFigures {
  std::vector<VariantFigures> variants;
  std::vector<LayerFigures> layers;  // by index
};

EvaluationFigures figures_of(const Evaluation& evaluation);

/// The text of the file, ending in a newline. Figures are rounded to float32.
std::string evaluation_text(const EvaluationRecord& record, const Evaluation& evaluation,
                            const EvaluationFigures& figures);

}  // namespace kvcal
