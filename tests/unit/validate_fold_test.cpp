// Folded checkpoints: scale files of the original, and folders whose record is broken beside a scale file.
#include <gtest/gtest.h>

#include "artifact/json_text.h"
#include "unit/finding_examples.h"
#include "unit/scale_folder.h"
#include "unit/validate_fixture.h"
#include "validate/validate_folder.h"

namespace kvcal {
namespace {

std::string ids_of(const Report& report) {
  keep_examples(report);
  std::string ids;
  for (const Finding& f : report.findings) ids += (ids.empty() ? "" : " ") + f.rule;
  return ids;
}

TEST(ValidateFold, CallsScalesFromBeforeTheFoldByTheirName) {
  const std::string text = json_text(sound());
  const auto against = [&](const ModelIdentity& model) {
    return ids_of(validate_artifact(text, shipped_schema(), &model));
  };
  ModelIdentity model = its_model();
  const std::string measured = model.weights_fingerprint;
  model.fold = FoldMark{std::string(64, '2'), 10, 0};
  EXPECT_EQ(against(model), "") << "measured on the folded folder";
  model.weights_fingerprint = std::string(64, '1');
  EXPECT_EQ(against(model), "M02") << "neither of the weights before the fold nor of those behind it";
  model.fold->original_fingerprint = measured;
  EXPECT_EQ(against(model), "M04");
}

TEST(ValidateFold, ComparesNothingWithAFolderWhoseRecordIsBroken) {
  ScaleFolder f = llm_compressor_folder("LlamaForCausalLM", "llama");
  f.files["kvcal-fold.json"] = "{";
  const TempFolder folder;
  f.write(folder);
  folder.write("s.json", json_text(sound()));
  FolderChecks checks;
  checks.scales = folder / "s.json";
  const Report report = validate_folder(folder / "model", shipped_schema(), checks).report;
  EXPECT_EQ(ids_of(report), "X01 S25");
  EXPECT_EQ(report.evaluated_rules().size() + report.skipped_rules().size(), rules().size());
  for (const Report::Skipped& s : report.skipped_rules())
    EXPECT_TRUE(s.rule != "M02" || s.reason == "the record of the fold is broken") << s.reason;
}

}  // namespace
}  // namespace kvcal
