// --to lightllm: kv_cache_calib.json, which LightLLM's --kv_quant_calibration_config_path reads: FP8 scales of all
// layers that own a cache, one for keys and one for values (fp8kv_spt, FlashInfer) or one per KV head, keys first
// (fp8kv_sph, FlashAttention 3), where queries have one for each KV head's group. Rules: LightLLM of September 2026,
// common/kv_cache_mem_manager/fp8_static_per_{tensor,head}_quant_mem_manager.py (which checks what), tools/
// calibrate_fp8kv.py (which writes it); read, as no release of it is on the package index.
#include <algorithm>

#include "artifact/json_text.h"
#include "base/read_file.h"
#include "export/layer_scales.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

constexpr size_t kFileBytes = size_t{64} << 20;
constexpr double kLargest = 448;

int64_t n_kv_heads(const ExportInput& input) { return input.artifact.layers.front().n_kv_heads; }

void check(const ExportInput& input) {
  check_format(input.artifact, {"fp8_e4m3"}, "LightLLM's static scales are for fp8_e4m3");
  check_no_channels(input.artifact, "LightLLM");
  for (const ArtifactLayer& layer : input.artifact.layers) {
    if (layer.is_mla()) fail("LightLLM reads no static scales for latent attention (MLA)");
    if (layer.n_kv_heads != n_kv_heads(input))
      fail("layers " + std::to_string(input.artifact.layers.front().index) + " and " + std::to_string(layer.index) +
           " have different numbers of KV heads, and LightLLM's file has one number for all");
  }
  if (layer_scales(input.artifact, input.model, Granularity::Tensor).size() != input.artifact.layers.size())
    fail("layers of " + input.model.spec.architecture +
         " share caches, and it is not known which rows of LightLLM's file they would take");
}

/// Queries are rounded with the scale of their KV head's group: the largest of its heads.
std::vector<float> by_group(const std::vector<float>& queries, size_t n_groups) {
  const size_t n = queries.size() / n_groups;
  std::vector<float> scales;
  for (size_t group = 0; group < n_groups; ++group)
    scales.push_back(*std::max_element(queries.begin() + static_cast<std::ptrdiff_t>(group * n),
                                       queries.begin() + static_cast<std::ptrdiff_t>((group + 1) * n)));
  return scales;
}

void append(Json& row, const std::vector<float>& values) {
  for (const float value : values) row.push_back(json_number(value));
}

/// A table of one row a layer, with what LightLLM compares before it takes it.
Json table(const ExportInput& input, const char* quant_type, const Json& rows) {
  const auto n_layers = static_cast<int64_t>(rows.size());
  return {{"version", "1.0"},
          {"architectures", input.model.spec.architecture},
          {"quant_type", quant_type},
          {"qmin", -kLargest},
          {"qmax", kLargest},
          {"num_layers", n_layers},
          {"num_target_layers", n_layers},
          {"num_draft_layers", 0},
          {"num_head", n_kv_heads(input)},
          {"scales_shape", {n_layers, static_cast<int64_t>(rows.front().size())}},
          {"scales", rows}};
}

ExportPlan plan(const ExportInput& input) {
  check(input);
  const Granularity granularity = input.artifact.quantization.granularity;
  const bool per_head = granularity == Granularity::Head;
  const char* quant_type = per_head ? "per_head" : "per_tensor";
  ExportPlan result;
  Json rows = Json::array(), of_queries = Json::array();
  for (const LayerScales& layer : layer_scales(input.artifact, input.model, granularity)) {
    Json row = Json::array(), query = Json::array();
    const std::string name = std::to_string(rows.size());
    append(row, layer.key);
    append(row, layer.value);
    result.scales.push_back({layer.layer, "key", name, layer.key});
    result.scales.push_back({layer.layer, "value", name, layer.value});
    if (per_head) {
      const std::vector<float> groups = by_group(layer.query, static_cast<size_t>(n_kv_heads(input)));
      append(query, groups);
      result.scales.push_back({layer.layer, "query", name, groups});
    }
    rows.push_back(row);
    of_queries.push_back(query);
  }
  Json file = table(input, quant_type, rows);
  if (per_head) {
    file["q_calibration"] = table(input, quant_type, of_queries);
    file["q_calibration"]["tensor"] = "q";
    file["q_calibration"]["scale_layout"] = "kv_head_group";
  }
  result.files = {{"", json_text(file)}};
  const std::string backend = per_head ? "fa3" : "flashinfer";
  result.serving.commands = {
      "python -m lightllm.server.api_server --model_dir " + shell_word(input.model.folder.string()) +
      " --llm_kv_type " + (per_head ? "fp8kv_sph" : "fp8kv_spt") + " --llm_prefill_att_backend " + backend +
      " --llm_decode_att_backend " + backend + " --kv_quant_calibration_config_path " + shell_word(input.out.string())};
  result.serving.notes = {
      "LightLLM compares architecture, number of layers and kind of scales, and stops where the file has others",
      "releases before num_target_layers count every layer of a hybrid model, and refuse its file",
      "known from: LightLLM's source of September 2026, which was read"};
  return result;
}

std::vector<float> floats_of(const Json& values) {
  std::vector<float> found;
  for (const Json& value : values) found.push_back(value.get<float>());
  return found;
}

void read_back(const ExportInput& input, const ExportPlan& plan, const std::filesystem::path& written) {
  const Json file = parse_json(read_file(written, kFileBytes));
  if (get_string(file, "architectures") != input.model.spec.architecture) fail("the file is for another architecture");
  for (const PlannedScale& s : plan.scales) {
    const bool query = s.site == "query";
    const Json& row = (query ? file.at("q_calibration") : file).at("scales").at(std::stoul(s.name));
    const std::vector<float> all = floats_of(row);
    const size_t begin = s.site == "value" ? all.size() - s.values.size() : 0;
    if (all.size() != s.values.size() * (query ? 1 : 2) ||
        !std::equal(s.values.begin(), s.values.end(), all.begin() + static_cast<std::ptrdiff_t>(begin)))
      fail("row " + s.name + " has another " + s.site + " than intended");
  }
}

}  // namespace

Exporter lightllm_exporter() {
  return {"lightllm", "the file of LightLLM's --kv_quant_calibration_config_path", false, plan, read_back, {}, true,
          "LightLLM"};
}

}  // namespace kvcal
