#include "export/recipe.h"

#include <algorithm>

#include "artifact/delivery.h"
#include "base/number_text.h"
#include "base/sha256.h"
#include "export/layer_scales.h"

namespace kvcal {
namespace {

std::string beginning(const std::string& hash) { return hash.empty() ? "none" : hash.substr(0, 12); }

void check_is_of(const SavedEvaluation& e, const Artifact& artifact, const ModelIdentity& model) {
  // The scales may be for a copy of the model that was measured, and the evaluation of either.
  const bool of_served =
      e.model.weights_fingerprint == model.weights_fingerprint && e.model.config_sha256 == model.config_sha256;
  const bool of_measured = e.model.weights_fingerprint == artifact.model.weights_fingerprint &&
                           e.model.config_sha256 == artifact.model.config_sha256;
  if (!of_served && !of_measured)
    fail("is for another model: " + quoted(e.model.architecture) + ", fingerprint " +
         beginning(e.model.weights_fingerprint) + ", the checkpoint is " + quoted(model.spec.architecture) + ", " +
         beginning(model.weights_fingerprint) + (model.was(e.model.weights_fingerprint) ? ", folded since" : "") +
         "; evaluate this one");
}

void check_is_with(const SavedEvaluation& e, const std::string& scales_sha256) {
  const std::string evaluated = e.sha256_of("file");
  if (evaluated != scales_sha256)
    fail("its recipe was found with another scale file (SHA-256 " + beginning(evaluated) + ", the one to export has " +
         beginning(scales_sha256) + "); evaluate again with --scales and this file first");
}

/// What a target writes of this scale file, for a message and for --choose: "fp8_e4m3,nvfp4".
std::string formats_of(const Artifact& artifact, const Exporter& exporter) {
  std::string names = artifact.quantization.dtype;
  if (names != "fp8_e4m3") return names;
  for (const std::string_view format : exporter.mixes) names += "," + std::string(format);
  return names;
}

/// Of INT8 beside FP8 or NVFP4. vLLM 0.33.0, config/cache.py; vllm-ascend, get_quant_method(), which goes by layer.
constexpr const char* kInt8Readers =
    "; no released server reads layers in INT8 beside others in 8 or 4 bits. INT8 and 16 bits by layer are read by "
    "vLLM-Ascend: '--to vllm-ascend' writes them with scales of 'kvcal solve STATS --dtype int8 --granularity channel' "
    "and a recipe of --choose int8. vLLM computes INT8 scales itself, with --kv-cache-dtype int8_per_token_head and "
    "--kv-cache-dtype-skip-layers for those in 16 bits. Else ";

/// Who writes such a layer beside others.
std::string way_of(const std::string& format) {
  for (const Exporter& other : exporters())
    if (std::ranges::find(other.mixes, format) != other.mixes.end())
      return "use '--to " + std::string(other.name) + "', or ";
  return "no target writes it beside another format; ";
}

[[noreturn]] void fail_format(int64_t layer, const std::string& format, const Artifact& artifact,
                              const Exporter& exporter) {
  const std::string& own = artifact.quantization.dtype;
  std::string message =
      "its recipe stores layer " + std::to_string(layer) + " in " + quoted(format) + ", the scales are for " + own;
  if (!exporter.mixes.empty() && own == "fp8_e4m3")
    message += ", which '--to " + std::string(exporter.name) + "' mixes with others";
  if (exporter.name == "vllm")  // compressed-tensors 0.20.1, executed: tests/loaders/check_compressed_tensors.py
    message +=
        "; compressed-tensors has one kv_cache_scheme for all layers, since its config groups round queries, too, and "
        "vLLM can exempt layers from it only by keeping them in bf16 (--kv-cache-dtype-skip-layers)";
  message += (format == "int8" || own == "int8" ? kInt8Readers : "; " + way_of(format)) +
             "evaluate again with --choose " + formats_of(artifact, exporter);
  fail(message);
}

void check_layers_of(const SavedRecipe& recipe, const Artifact& artifact, const Exporter& exporter) {
  std::vector<int> chosen, measured;
  for (const auto& [layer, format] : recipe.layers) {
    chosen.push_back(static_cast<int>(layer));
    const bool is_mixed = std::ranges::find(exporter.mixes, format) != exporter.mixes.end();
    if (format != "bf16" && format != artifact.quantization.dtype && !is_mixed)
      fail_format(layer, format, artifact, exporter);
  }
  for (const ArtifactLayer& layer : artifact.layers) measured.push_back(layer.index);
  if (chosen != measured)
    fail("its recipe is for layer(s) " + layer_list(chosen) + ", the scale file has " + layer_list(measured));
}

/// "; layer(s) 3 in nvfp4; layer(s) 7 stay in bf16", or "; every layer in fp8_e4m3".
std::string formats_text(const AppliedRecipe& applied, const Artifact& artifact) {
  std::map<std::string, std::vector<int>> by_format;
  for (const auto& [layer, format] : applied.formats) by_format[format].push_back(layer);
  if (by_format.size() == 1 && applied.kept.empty()) return "; every layer in " + by_format.begin()->first;
  std::string text;
  for (const auto& [format, layers] : by_format)
    if (by_format.size() > 1 || format != artifact.quantization.dtype)
      text += "; layer(s) " + layer_list(layers) + " in " + format;
  return applied.kept.empty() ? text : text + "; layer(s) " + layer_list(applied.kept) + " stay in bf16";
}

}  // namespace

AppliedRecipe recipe_for(const std::filesystem::path& evaluation, const Artifact& artifact,
                         const std::string& scales_sha256, const ModelIdentity& model, const Exporter& exporter) {
  const std::string text = read_evaluation_text(evaluation);
  const SavedEvaluation e = parse_evaluation_file(text, evaluation);
  return while_doing(quoted(evaluation.string()), [&] {
    if (!e.recipe)
      fail("has no recipe; 'kvcal evaluate MODEL --scales SCALES --choose " + artifact.quantization.dtype +
           " --max-kl KL' finds one");
    check_is_of(e, artifact, model);
    check_is_with(e, scales_sha256);
    check_layers_of(*e.recipe, artifact, exporter);
    AppliedRecipe applied = {*e.recipe, {}, {}, sha256_hex(text)};
    for (const auto& [layer, format] : e.recipe->layers)
      if (format == "bf16")
        applied.kept.push_back(static_cast<int>(layer));
      else
        applied.formats[static_cast<int>(layer)] = format;
    if (applied.kept.size() == artifact.layers.size())
      fail(
          "its recipe keeps every layer in bf16: there is nothing to export; serve the model with --kv-cache-dtype "
          "auto");
    return applied;
  });
}

std::vector<std::string> notes_on(const AppliedRecipe& applied, const Artifact& artifact) {
  const SavedRecipe& r = applied.recipe;
  std::vector<std::string> notes = {"the recipe was measured: mean KL " + formatted("%.3g", r.kl) + " nats, limit " +
                                    formatted("%.3g", r.max_kl) + formats_text(applied, artifact)};
  std::vector<int> overruled, spared;
  const std::vector<int> ruined = keep16_layers(artifact);
  for (const ArtifactLayer& layer : artifact.layers) {
    const bool kept = std::ranges::binary_search(applied.kept, layer.index);
    const bool keep16 = std::ranges::binary_search(ruined, layer.index);
    if (keep16 && !kept) overruled.push_back(layer.index);
    if (kept && !keep16) spared.push_back(layer.index);
  }
  if (!overruled.empty())
    notes.push_back("the scale file calls layer(s) " + layer_list(overruled) + " keep16, which is a prediction; the " +
                    "recipe measured them within its limit, and is followed");
  if (!spared.empty())
    notes.push_back("layer(s) " + layer_list(spared) +
                    " stay in bf16 by the recipe alone: the scale file does not call them keep16");
  return notes;
}

}  // namespace kvcal
