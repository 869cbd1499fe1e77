// --to modelopt: into a checkpoint that ModelOpt has quantized, as ModelOpt would have written it: k_proj.k_scale and
// v_proj.v_scale, F32 without dimensions, no query scales; of an NVFP4 cache nvfp4_global_scale(). With a recipe each
// layer has its format, as ModelOpt 0.48 lists them, also in checkpoints that are not quantized.
#include <algorithm>
#include <array>
#include <map>

#include "artifact/nvfp4_scale.h"
#include "export/checkpoint_target.h"
#include "export/export.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

struct Algorithm {
  std::string_view format;  // of a recipe
  const char* name;
  bool nvfp4_key, nvfp4_value;
};
constexpr std::array kAlgorithms = {Algorithm{"fp8_e4m3", "FP8", false, false}, Algorithm{"nvfp4", "NVFP4", true, true},
                                    Algorithm{"fp8_e4m3:nvfp4", "FP8_K_NVFP4_V", false, true}};
constexpr std::array<std::string_view, 2> kMixes = {kAlgorithms[1].format, kAlgorithms[2].format};

/// Of a layer that owns a cache. One that is kept has scales for those who do not read the list.
const Algorithm& algorithm_of(const ExportInput& input, int layer) {
  const auto chosen = input.options.formats.find(layer);
  if (chosen == input.options.formats.end()) return kAlgorithms[input.options.nvfp4 ? 1 : 0];
  return *std::ranges::find(kAlgorithms, chosen->second, &Algorithm::format);
}

std::vector<LayerScales> scales_of(const ExportInput& input) {
  std::map<int, const ArtifactLayer*> layers;
  for (const ArtifactLayer& layer : input.artifact.layers) layers[layer.index] = &layer;
  std::vector<LayerScales> all = layer_scales(input.artifact, input.model, Granularity::Tensor);
  for (LayerScales& scales : all) {
    const Algorithm& algorithm = algorithm_of(input, scales.owner);
    if (algorithm.nvfp4_key) scales.key = {nvfp4_global_scale(layers.at(scales.owner)->key.absmax)};
    if (algorithm.nvfp4_value) scales.value = {nvfp4_global_scale(layers.at(scales.owner)->value.absmax)};
  }
  return all;
}

bool has_recipe(const ExportInput& input) { return !input.options.formats.empty(); }

void check(const ExportInput& input) {
  const bool is_plain = input.carrier.kind == KvCarrier::None;
  if (input.carrier.kind != KvCarrier::ModelOpt && !(is_plain && has_recipe(input)))
    fail("the checkpoint was not quantized by ModelOpt but by " + quoted(input.carrier.method) +
         ", and servers accept ModelOpt's names only with its config; use '--to vllm' or '--to sglang'");
  if (!input.options.nvfp4) check_format(input.artifact, {"fp8_e4m3"}, "ModelOpt's convention is fp8_e4m3");
  check_per_tensor(input.artifact, "ModelOpt's convention");
}

std::vector<TextFile> configs(const ExportInput& input, CacheAlgorithms& cache) {
  if (!has_recipe(input) && !input.carrier.weights_quantized) return modelopt_configs(input);  // says why not
  cache.is_list = cache.is_list || !input.carrier.weights_quantized;
  return input.carrier.kind == KvCarrier::None ? new_modelopt_configs(input, cache) : modelopt_configs(input, cache);
}

/// Pull requests that were open in September 2026.
std::string readers_to_come(const CacheAlgorithms& cache) {
  const bool any_pair = std::ranges::any_of(cache.by_module, [](const auto& m) { return m.second == "FP8_K_NVFP4_V"; });
  return any_pair ? "a reader of FP8 keys with NVFP4 values is proposed in vllm#53770 and TensorRT-LLM#18206"
                  : "vLLM's reader is proposed in vllm#56116";
}

/// What a user of today's servers has instead of the mixture.
void add_way_of_today(const ExportInput& input, const CacheAlgorithms& cache, Serving& serving) {
  const std::string unread =
      "no released server reads kv_cache_quantized_layers (kv_cache_deployment_supported is "
      "false; " +
      readers_to_come(cache) + "); ";
  if (input.carrier.weights_quantized) {
    serving.commands = {vllm_command(input, "fp8_e4m3")};
    serving.snippet = vllm_snippet(input, "fp8_e4m3");
    serving.notes.push_back(unread +
                            "under auto the cache of vLLM 0.33.0 and SGLang 0.5.23 stays in 16 bits. The "
                            "command above is what vLLM can do today: FP8 in every listed layer");
    return;
  }
  std::string command =
      "kvcal export " + shell_word(input.scales.string()) + " --model " + shell_word(input.model.folder.string());
  const std::vector<int> kept = skipped_layers(input.artifact, input.options);
  for (size_t i = 0; i < kept.size(); ++i) command += (i == 0 ? " --skip-layers " : ",") + std::to_string(kept[i]);
  serving.notes.push_back(unread +
                          "vLLM 0.33.0 and SGLang 0.5.23 do not start with a ModelOpt config without quantized "
                          "weights. For FP8 in these layers today: " +
                          command + " -o OUT");
}

void add_serving(const ExportInput& input, const Naming& naming, const CacheAlgorithms& cache, Serving& serving) {
  const char* dtype = cache.whole() == "NVFP4" ? "nvfp4" : "fp8_e4m3";
  if (is_served(input, cache)) {
    serving.commands = {vllm_command(input, dtype)};
    serving.snippet = vllm_snippet(input, dtype);
    if (cache.is_list)
      serving.notes.emplace_back("vLLM keeps layers by the flag: no released server reads kv_cache_quantized_layers");
  } else {
    add_way_of_today(input, cache, serving);
  }
  if (input.carrier.weights_quantized)
    serving.notes.emplace_back(
        "TensorRT-LLM accepts the folder, but uses 1.0 for an FP8 cache whatever the scales are");
  serving.notes.emplace_back("the values are exact in bfloat16, rounded up: vLLM keeps them in the model's dtype");
  const bool has_nvfp4 = std::ranges::any_of(cache.by_module, [](const auto& m) { return m.second != "FP8"; });
  if (has_nvfp4)
    serving.notes.emplace_back(
        "global scales of NVFP4 are absmax / 448, as evaluate measures them; SGLang multiplies them by 6 on SM100, "
        "which costs range and clips nothing");
  if (is_served(input, cache)) add_sglang_command(input, naming, dtype, serving);
  if (input.carrier.weights_quantized) add_evidence(naming, serving);
}

ExportPlan plan(const ExportInput& input) {
  check(input);
  Naming naming = naming_for(input, ServerKind::Vllm, KvCarrier::ModelOpt);
  naming.spelling = ScaleSpelling::Projection;
  naming.query = false;
  ExportPlan result;
  result.dropped = replaced_scales(input);
  add_tensors(scales_of(input), naming, result);
  CacheAlgorithms cache =
      cache_algorithms(input, [&](int layer) { return std::string(algorithm_of(input, layer).name); });
  result.files = configs(input, cache);
  add_serving(input, naming, cache, result.serving);
  return result;
}

}  // namespace

Exporter modelopt_exporter() {
  return {"modelopt",
          "ModelOpt's own names, in a checkpoint quantized by ModelOpt; --nvfp4 for an NVFP4 cache",
          true,
          plan,
          read_back_folder,
          {"--nvfp4", [](const ExportRequest& r) { return r.options.nvfp4; }, ""},
          true,
          {},
          kMixes};
}

}  // namespace kvcal
