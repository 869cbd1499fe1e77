// --to scales: the scale file again, valid for more checkpoints of the same model (--also-for): an FP8 or AWQ copy
// caches what the original caches, within its weights' own rounding.
#include <algorithm>

#include "export/export.h"
#include "export/layer_scales.h"
#include "export/targets.h"

namespace kvcal {
namespace {

void check_same_model(const ModelIdentity& measured, const ModelIdentity& other) {
  const auto name = quoted(other.folder.string());
  const auto check = [&](const std::string& what, const std::string& a, const std::string& b) {
    if (a != b) fail(name + " is not a copy of the model: " + what + " " + quoted(b) + ", expected " + quoted(a));
  };
  check("architecture", measured.spec.architecture, other.spec.architecture);
  check("model_type", measured.spec.model_type, other.spec.model_type);
  const auto caches = [](const ModelIdentity& model) {
    std::string text = std::to_string(model.spec.layers.size()) + " layers";
    for (const KvLayout& c : model.spec.caches)
      text += " " + model.tensor_prefix + c.name + ":" + c.kind + ":" + std::to_string(c.n_heads) + ":" +
              std::to_string(c.n_kv_heads) + ":" + std::to_string(c.head_dim_k) + ":" + std::to_string(c.head_dim_v);
    return text;
  };
  check("layers and caches", caches(measured), caches(other));
  const auto original = [](const ModelIdentity& m) { return m.fold ? m.fold->original_fingerprint : std::string(); };
  if (original(other) != original(measured))
    fail(name + " is not a copy of the model: powers of two are folded into the weights of one of them (" +
         kFoldRecord + "), which therefore caches other values; calibrate it");
}

Artifact extended(const ExportInput& input) {
  Artifact artifact = input.artifact;
  std::vector<std::string>& also = artifact.model.also_valid_for;
  for (const ModelIdentity& other : input.options.also_for) {
    check_same_model(input.model, other);
    const std::string& fingerprint = other.weights_fingerprint;
    if (fingerprint != artifact.model.weights_fingerprint && std::ranges::find(also, fingerprint) == also.end())
      also.push_back(fingerprint);
  }
  return artifact;
}

ExportPlan plan(const ExportInput& input) {
  ExportPlan result;
  result.files = {{"", artifact_text(extended(input))}};
  result.serving.notes = {
      "the numbers are unchanged; weights that were quantized differently cache slightly different "
      "values, which the headroom covers"};
  return result;
}

void read_back(const ExportInput& input, const ExportPlan&, const std::filesystem::path& written) {
  if (read_artifact(written) != extended(input)) fail("the file that was written reads back differently");
}

}  // namespace

Exporter scale_file_exporter() {
  return {
      "scales",  "the scale file, accepted for more copies of the same model: --also-for CHECKPOINT",
      false,     plan,
      read_back, {"--also-for", [](const ExportRequest& r) { return !r.also_for.empty(); }, "--also-for CHECKPOINT"},
      false,     "a scale file"};
}

}  // namespace kvcal
