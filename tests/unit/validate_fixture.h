// A sound scale file of five layers, to be damaged.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/read_file.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"
#include "validate/validate.h"

namespace kvcal {

inline const std::string& shipped_schema() {
  static const std::string text =
      read_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "schemas" / kArtifactSchemaFile, size_t{1} << 20);
  return text;
}

/// Layers 1, 3, 4, 5 and 7 of 8 own a cache; keys reach about 17, values about 2.
inline Statistics sound_statistics() {
  Statistics all;
  const std::vector<int> owners = {1, 3, 4, 5, 7};
  for (const int layer : owners) {
    SyntheticRun run;
    run.layout = small_layout(layer);
    run.n_prompts = 12;
    const auto seed = static_cast<unsigned>(100 * layer + 7);
    run.key = gaussian(4, seed + 1);
    run.value = gaussian(0.5, seed + 2);
    run.query = gaussian(4, seed + 3);
    if (all.caches.empty())
      all = synthetic_statistics(run);
    else
      all.caches.push_back(synthetic_cache(run));
    all.caches.back().layout.cache = static_cast<int>(all.caches.size()) - 1;
  }
  all.run.model->n_kv_layers = static_cast<int64_t>(owners.size());
  all.run.model->max_positions = 1024;
  all.run.layers_without_kv->clear();
  for (const int layer : {0, 2, 6}) all.run.layers_without_kv->push_back({layer, "gated_delta_net", std::nullopt});
  return all;
}

inline SolveOptions solve_options(Granularity granularity = Granularity::Tensor, const char* policy = "absmax",
                                  const char* format = "fp8_e4m3") {
  SolveOptions options;
  options.granularity = granularity;
  options.policy = policy;
  options.format = format;
  options.limits.noise = 10;  // of random keys
  return options;
}

inline const Json& sound(Granularity granularity = Granularity::Tensor) {
  static const Json tensor = to_json(solved_artifact(sound_statistics(), solve_options()));
  static const Json head = to_json(solved_artifact(sound_statistics(), solve_options(Granularity::Head)));
  static const Json channel =
      to_json(solved_artifact(sound_statistics(), solve_options(Granularity::Channel, "absmax", "int8")));
  return granularity == Granularity::Tensor ? tensor : granularity == Granularity::Head ? head : channel;
}

/// The model that sound() is of.
inline ModelIdentity its_model() {
  const Statistics statistics = sound_statistics();
  ModelIdentity model;
  model.spec.architecture = "Qwen3_5ForCausalLM";
  model.spec.model_type = "qwen3_5_text";
  model.spec.layers.resize(8);
  for (int i = 0; i < 8; ++i) model.spec.layers[static_cast<size_t>(i)] = {i, LayerKind::GatedDeltaNet};
  for (const CacheStatistics& c : statistics.caches) {
    model.spec.layers[static_cast<size_t>(c.layout.layer)] = {c.layout.layer, LayerKind::Attention, c.layout.cache};
    model.spec.caches.push_back(c.layout);
  }
  model.tensor_prefix = "model.language_model.";
  model.config_sha256 = std::string(64, 'a');
  model.weights_fingerprint = std::string(64, 'b');
  return model;
}

/// The bf16 number toward zero, as measured magnitudes are.
inline double bf16_below(double x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(x)) & 0xFFFF0000U);
}

/// By hand, wherever it stands, so that only its being no bf16 number tells.
inline void edit_absmax(Json& site) {
  const double was = site["absmax"], edited = was * 0.99999;
  site["absmax"] = edited;
  for (const char* list : {"absmax_per_head", "absmax_by_position"})
    for (Json& x : site[list])
      if (x.get<double>() == was) x = edited;
}

}  // namespace kvcal
