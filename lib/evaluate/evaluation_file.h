// evaluation.json: what was compared, and by how much predictions differ.
#pragma once

#include <string>
#include <vector>

#include "evaluate/evaluation_figures.h"

namespace kvcal {

constexpr const char* kEvaluationFormat = "kv-cache-evaluation";
constexpr const char* kEvaluationVersion = "1.3";
constexpr const char* kEvaluationSchemaFile = "evaluation.v1.schema.json";  // in schemas/

/// A file whose scales or ranges variants were made of.
struct EvaluatedFile {
  std::string name;  // "file", "file_2", ...; "statistics"
  std::string sha256;
};

struct EvaluationRecord {
  std::string tool_version, precision;
  std::vector<EvaluatedFile> files;
  int64_t keep_recent = 0;  // as EvaluationOptions has it
  int64_t state_chunk = 1;  // StateFormat::chunk of variants
  std::string attention{};  // as EvaluationOptions has it
  bool query = false;       // queries were rounded
  int64_t max_new_tokens = 0;
  std::vector<std::string> choose{};  // formats that a recipe could choose
};

/// The text of the file, ending in a newline. Figures are rounded to float32.
std::string evaluation_text(const EvaluationRecord& record, const Evaluation& evaluation,
                            const EvaluationFigures& figures);

}  // namespace kvcal
