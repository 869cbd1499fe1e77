#include "calibrate/changes.h"

#include <algorithm>

#include "artifact/make_artifact.h"
#include "calibrate/run_description.h"
#include "solve/solve.h"

namespace kvcal {
namespace {

using Changes = std::vector<std::string>;

void compare_models(const ModelInfo& a, const ModelInfo& b, Changes& changes) {
  if (a.config_sha256 != b.config_sha256) changes.push_back("the model's config.json");
  if (a.weights_fingerprint != b.weights_fingerprint) changes.push_back("the model's weights");
  if (changes.empty() && a != b) changes.push_back("the model");
}

// Whether the model's predictions are, or would be, in the file.
bool changes_sanity(const Artifact& earlier, const SequencePlan& sequences, const CalibrationOptions& options) {
  const bool predicts = options.sequences.sanity &&
                        std::ranges::any_of(sequences.sanity, [](const Sequence& s) { return s.n_tokens > 1; });
  return predicts != earlier.evidence.sanity.has_value();
}

void compare_runs(const CalibrationInfo& a, const CalibrationInfo& b, Changes& changes) {
  const size_t n_before = changes.size();
  const auto compare = [&](auto member, const std::string& name) {
    if (a.*member != b.*member) changes.push_back(name);
  };
  compare(&CalibrationInfo::tool_version, "the program (" + a.tool_version + ")");
  compare(&CalibrationInfo::prompts_sha256, "prompts");
  compare(&CalibrationInfo::max_length, "--max-length");
  compare(&CalibrationInfo::passes, "--passes");
  compare(&CalibrationInfo::precision, "--precision");
  compare(&CalibrationInfo::activation_quant, "--emulate-activation-quant");
  if (changes.size() > n_before) return;
  // The same prompts, as other tokens.
  compare(&CalibrationInfo::plan_sha256, "tokens of the prompts (tokenizer, chat template, its variables, date)");
  if (changes.size() == n_before && a != b) changes.push_back("what was fed");
}

void compare_choices(const ArtifactQuantization& a, const ArtifactQuantization& b, Changes& changes) {
  const auto compare = [&](auto member, const char* name) {
    if (a.*member != b.*member) changes.push_back(name);
  };
  compare(&ArtifactQuantization::dtype, "--dtype");
  compare(&ArtifactQuantization::granularity, "--granularity");
  compare(&ArtifactQuantization::policy, "--policy");
  if (a.dtype == b.dtype && a.policy == b.policy) {  // whose defaults they have
    compare(&ArtifactQuantization::headroom, "--headroom");
    compare(&ArtifactQuantization::percentile, "--percentile");
  }
  compare(&ArtifactQuantization::max_model_len, "--max-model-len");
  compare(&ArtifactQuantization::limits, "limits of the assessments");
}

}  // namespace

std::vector<std::string> changes_since(const Artifact& earlier, const OpenedModel& model, const RunSources& sources,
                                       const SequencePlan& sequences, const CalibrationOptions& options) {
  const RunRecord now = record_of({model, sources, options, earlier.calibration.isa}, sequences,
                                  options.sequences.passes, SanityCheck(0, sequences.prompts));
  Changes changes;
  compare_models(earlier.model, *now.model, changes);
  compare_runs(earlier.calibration, *now.calibration, changes);
  if (changes_sanity(earlier, sequences, options)) changes.push_back("--no-sanity");
  compare_choices(earlier.quantization, quantization_of(options.solve, max_model_len_of(now, options.solve)), changes);
  return changes;
}

}  // namespace kvcal
