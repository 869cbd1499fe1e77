// A sound evaluation.json of a small model, to be read, shown or damaged: three variants, two of them with answers that
// are not the reference's.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "stats/model_info.h"

namespace kvcal {

inline Json evaluated_figures(int n_tokens, double mean) {
  const Json worst = {{"prompt", "a"}, {"position", 1}, {"kl", mean * 8}};
  return {{"n_tokens", n_tokens},
          {"kl", {{"mean", mean}, {"median", mean / 2}, {"p99", mean * 4}, {"worst", worst}}},
          {"top1", mean == 0 ? 1.0 : 0.75},
          {"nll", 1.25 + mean},
          {"nll_reference", 1.25}};
}

/// Six tokens: one at position 0, one at 1, four at 2 and 3.
inline Json evaluated_variant(const std::string& name, const std::string& format, double mean) {
  Json v = {{"name", name}, {"format", format}};
  v.update(evaluated_figures(6, mean));
  v["first_divergence"] = mean == 0 ? Json(nullptr) : Json{{"prompt", "a"}, {"position", 1}};
  v["correct"] = mean == 0 ? 1.0 : 0.5;
  v["loops"] = 0;
  v["answers"] = {{"n", 2},         {"n_equal", mean == 0 ? 2 : 1},   {"agreement", mean == 0 ? 1.0 : 0.625},
                  {"n_empty", 0},   {"n_endless", mean == 0 ? 0 : 1}, {"n_expected", 2},
                  {"n_correct", 1}, {"first_divergence", nullptr}};
  v["by_tag"] = {{"tag", evaluated_figures(3, mean)}};
  v["by_position"] = Json::array();
  for (const auto& [from, n] : {std::pair{0, 1}, {1, 1}, {2, 4}}) {
    Json part = {{"from", from}};
    part.update(evaluated_figures(n, mean));
    v["by_position"].push_back(part);
  }
  return v;
}

/// Of these layers, each in FP8 but the first, which is kept.
inline Json sound_evaluation(const ModelInfo& model, const std::vector<int>& layers) {
  Json e = {{"$schema", "evaluation.v1.schema.json"}, {"format", "kv-cache-evaluation"}, {"version", "1.0"}};
  e["tool_version"] = "kvcal test";
  e["model"] = to_json(model);
  e["prompts"] = {{"sha256", std::string(64, 'c')}, {"n_prompts", 2}, {"n_tokens", 6}};
  e["precision"] = "f32";
  e["isa"] = "test";
  e["files"] = Json::array({Json{{"name", "file"}, {"sha256", std::string(64, 'd')}}});
  e["reference_twice"] = {{"n_tokens", 3}, {"kl", 0}};
  e["variants"] = {evaluated_variant("reference", "none", 0), evaluated_variant("scale_1.0", "fp8_e4m3", 0.5),
                   evaluated_variant("file", "fp8_e4m3", 0.0078125)};
  e["layers"] = Json::array();
  Json choice = Json::array();
  for (const int layer : layers) {
    e["layers"].push_back({{"index", layer}, {"kl", 0.25 / (1 + layer)}, {"top1", 0.875}, {"nll", 1.5}});
    choice.push_back({{"index", layer}, {"format", choice.empty() ? "bf16" : "fp8_e4m3"}});
  }
  e["recipe"] = {{"max_kl", 0.03125},      {"kl", 0.015625},  {"sum_kl", 0.0625},
                 {"bytes_per_token", 768}, {"n_measured", 2}, {"layers", choice}};
  const Json answer = {{"text", "It is 68 ropes."}, {"n_tokens", 6}, {"ended", true}, {"correct", true}};
  const Json other = {{"text", "It is 70 ropes."},
                      {"n_tokens", 8},
                      {"ended", false},
                      {"loop", {{"begin", 2}, {"period", 1}, {"repetitions", 6}}},
                      {"correct", false},
                      {"first_divergence", 2}};
  e["answers"] = {{{"prompt", "a"}, {"reference", answer}, {"others", {{"scale_1.0", other}, {"file", other}}}},
                  {{"prompt", "b"}, {"reference", answer}, {"others", Json::object()}}};
  return e;
}

/// Eight layers, of which 3 and 7 own a cache.
inline ModelInfo evaluated_model() {
  ModelInfo model;
  model.architecture = "Qwen3_5ForCausalLM";
  model.model_type = "qwen3_5_text";
  model.n_layers = 8;
  model.n_kv_layers = 2;
  model.tensor_prefix = "model.";
  model.config_sha256 = std::string(64, 'a');
  model.weights_fingerprint = std::string(64, 'b');
  return model;
}

inline Json sound_evaluation() { return sound_evaluation(evaluated_model(), {3, 7}); }

}  // namespace kvcal
