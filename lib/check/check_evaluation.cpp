// An evaluation by itself, against the model and against the scales that it is of.
#include <algorithm>
#include <set>

#include "artifact/evaluation_schema.h"
#include "artifact/schema_check.h"
#include "check/evaluation_checks.h"

namespace kvcal {
namespace {

const char* rule_of(EvaluationFault::About about) {
  using enum EvaluationFault::About;
  switch (about) {
    case Variants:
      return "D01";
    case Figures:
      return "D02";
    case Counts:
      return "D03";
    case Layers:
      return "D04";
    case Recipe:
      return "D05";
  }
  return "A06";
}

std::string listed(const std::set<int64_t>& layers) {
  std::string text;
  for (const int64_t layer : layers) text += (text.empty() ? "" : ", ") + std::to_string(layer);
  return text.empty() ? "none" : text;
}

/// Name and digest of the scale files that it was made with.
std::vector<std::pair<std::string, std::string>> scale_files(const SavedEvaluation& evaluation) {
  std::vector<std::pair<std::string, std::string>> files;
  std::ranges::copy_if(evaluation.files, std::back_inserter(files),
                       [](const auto& file) { return file.first.starts_with("file"); });
  return files;
}

}  // namespace

void check_evaluation_schema(const Json& document, Report& report) {
  report.evaluated({"A02", "A04"});
  const Json* version = find_member(document, "version");
  if (version && version->is_string() && !version->get_ref<const std::string&>().starts_with("1."))
    return report.add("A04", "version", "the version", "1.x", version->dump());
  for (const SchemaError& error : check_schema(document, evaluation_schema(), kEvaluationFreeTexts))
    report.add("A02", error.path, error.message);
}

void check_evaluation(const SavedEvaluation& evaluation, Report& report) {
  report.evaluated({"D01", "D02", "D03", "D04", "D05"});
  for (const EvaluationFault& fault : faults_of(evaluation))
    report.add(rule_of(fault.about), fault.path, fault.what, fault.expected, fault.actual);
}

void check_evaluated_model(const SavedEvaluation& evaluation, const ModelIdentity& model, Report& report) {
  report.evaluated({"M01", "M02", "M03", "M04", "D04", "D05"});
  report.compare("M01", "model.config_sha256", "the hash of the checkpoint's config.json", model.config_sha256,
                 evaluation.model.config_sha256);
  report.compare(model.was(evaluation.model.weights_fingerprint) ? "M04" : "M02", "model.weights_fingerprint",
                 "the fingerprint of the checkpoint's weights", model.weights_fingerprint,
                 evaluation.model.weights_fingerprint);
  report.compare("M03", "model.architecture", "the architecture", model.spec.architecture,
                 evaluation.model.architecture);
  report.compare("M03", "model.n_layers", "the number of layers", std::to_string(model.spec.layers.size()),
                 std::to_string(evaluation.model.n_layers));
  std::set<int64_t> owners, alone, chosen;
  for (const KvLayout& layout : model.spec.caches) owners.insert(layout.layer);
  for (const SavedLayer& layer : evaluation.layers) alone.insert(layer.index);
  if (!alone.empty()) report.compare("D04", "layers", "the layers with a cache", listed(owners), listed(alone));
  if (!evaluation.recipe) return;
  for (const auto& [layer, format] : evaluation.recipe->layers) chosen.insert(layer);
  report.compare("D05", "recipe.layers", "the layers with a cache", listed(owners), listed(chosen));
}

void check_evaluated_scales(const SavedEvaluation& evaluation, const std::string& named, const std::string& beside,
                            Report& report) {
  const auto files = scale_files(evaluation);
  const auto is_one = [&](const std::string& sha256) {
    return std::ranges::any_of(files, [&](const auto& file) { return file.second == sha256; });
  };
  std::string of;
  for (const auto& [name, sha256] : files) of += (of.empty() ? "" : ", ") + name + " " + sha256;
  if (of.empty()) of = "no scale file";
  if (!named.empty()) {
    report.evaluated({"D06"});
    if (!is_one(named)) report.add("D06", "files", "the scale file", named, of);
  }
  if (beside.empty() || files.empty()) return;
  report.evaluated({"D07"});
  if (!is_one(beside) && named.empty()) report.add("D07", "files", "the scale file beside it", beside, of);
}

}  // namespace kvcal
