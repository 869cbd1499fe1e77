// kvcal-fold.json: the record of a fold, in the folder that it wrote. It says what was multiplied, so that the fold can
// be taken back, and whose weights these were.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "fold/fold_plan.h"
#include "stats/model_info.h"

namespace kvcal {

struct FoldRecord {
  std::string tool_version;
  ModelInfo original;             // before the fold
  std::string statistics_sha256;  // by which it was placed
  std::string format;
  FoldPlan plan;
};

Json to_json(const FoldRecord& record);
std::string record_text(const FoldRecord& record);

/// That of an adapter of the same model, in the folder of the folded one.
std::string adapter_record_text(const FoldRecord& of_model, const std::vector<TensorFold>& tensors);

}  // namespace kvcal
