// --to ort-genai: the kv_cache_scale_file of onnxruntime-genai's model builder, which puts the scales into the ONNX
// graph: a number a layer (per_tensor) or one per channel (per_channel), INT8 or FP8. Rules: onnxruntime-genai 0.18.0,
// models/builders/base.py (make_kv_cache_scale_initializers, executed), models/quantization/quant_config.py.
#include <algorithm>

#include "artifact/json_text.h"
#include "base/read_file.h"
#include "export/layer_scales.h"
#include "export/serve.h"
#include "export/targets.h"

namespace kvcal {
namespace {

constexpr size_t kFileBytes = size_t{256} << 20;

bool per_channel(const ExportInput& input) { return input.artifact.quantization.granularity != Granularity::Tensor; }

std::string scheme(const ExportInput& input) {
  return std::string(input.artifact.quantization.dtype == "int8" ? "int8" : "fp8") +
         (per_channel(input) ? "_per_channel" : "_per_tensor");
}

void check(const ExportInput& input) {
  check_format(input.artifact, {"int8", "fp8_e4m3"}, "onnxruntime-genai's cache is int8 or fp8_e4m3");
  const ArtifactLayer& first = input.artifact.layers.front();
  for (const ArtifactLayer& layer : input.artifact.layers) {
    if (layer.is_mla())
      fail("onnxruntime-genai quantizes the cache of GroupQueryAttention and PagedAttention, not of latent attention");
    if (layer.n_kv_heads != first.n_kv_heads || layer.head_dim_k != first.head_dim_k ||
        layer.head_dim_v != first.head_dim_k)
      fail("layer " + std::to_string(layer.index) + " has " + std::to_string(layer.n_kv_heads) + " KV heads of " +
           std::to_string(layer.head_dim_k) + " and " + std::to_string(layer.head_dim_v) +
           ", and onnxruntime-genai has one number and one width for all");
  }
}

/// Heads as the channels that they have.
std::vector<float> repeated(const std::vector<float>& scales, size_t n) {
  std::vector<float> all;
  for (const float scale : scales) all.insert(all.end(), n / scales.size(), scale);
  return all;
}

Json entry(const std::vector<float>& values) {
  if (values.size() == 1) return json_number(values.front());
  Json all = Json::array();
  for (const float value : values) all.push_back(json_number(value));
  return all;
}

ExportPlan plan(const ExportInput& input) {
  check(input);
  ExportPlan result;
  Json keys = Json::array(), values = Json::array(), layers = Json::array();
  const auto add = [&](int layer, const char* site, const char* name, const std::vector<float>& scales, Json& list) {
    list.push_back(entry(scales));
    result.scales.push_back({layer, site, name, scales});
  };
  for (const LayerScales& layer : layer_scales(input.artifact, input.model, input.artifact.quantization.granularity)) {
    if (layer.owner != layer.layer) continue;  // layers without a cache of their own have no entry
    const ArtifactLayer& first = input.artifact.layers.front();
    const size_t n = per_channel(input) ? static_cast<size_t>(first.n_kv_heads * first.head_dim_k) : 1;
    add(layer.layer, "key", "k_scales", repeated(layer.key, n), keys);
    add(layer.layer, "value", "v_scales", repeated(layer.value, n), values);
    layers.push_back(layer.layer);
  }
  // What the builder takes for its own calibration to have divided by: with it a scheme of this width keeps the scales
  // as they are, and one of four bits gets larger ones.
  const Json qmax = input.artifact.quantization.dtype == "int8" ? 128.0 : 448.0;
  const Json file = {{"qmax", qmax}, {"layer_ids", layers}, {"scales", {{"k_scales", keys}, {"v_scales", values}}}};
  result.files = {{"", json_text(file)}};
  result.serving.commands = {
      "python -m onnxruntime_genai.models.builder -i " + shell_word(input.model.folder.string()) +
      " -o ONNX_MODEL -p int4 -e cuda --extra_options " + "kv_cache_quant_scheme=" + scheme(input) +
      " kv_cache_scale_file=" + shell_word(input.out.string())};
  result.serving.notes = {"the builder stops where the file's layers are not those that have a cache in its graph",
                          "a quantized cache needs GroupQueryAttention or PagedAttention, on CPU or CUDA",
                          "known from: onnxruntime-genai 0.18.0, whose function that reads the file was executed"};
  return result;
}

void read_back(const ExportInput&, const ExportPlan& plan, const std::filesystem::path& written) {
  const Json file = parse_json(read_file(written, kFileBytes));
  const Json& layers = file.at("layer_ids");
  for (const PlannedScale& s : plan.scales) {
    const auto at = std::find(layers.begin(), layers.end(), Json(s.layer));
    if (at == layers.end()) fail("layer " + std::to_string(s.layer) + " is missing");
    if (file.at("scales").at(s.name).at(static_cast<size_t>(at - layers.begin())) != entry(s.values))
      fail("layer " + std::to_string(s.layer) + " has another " + s.site + " than intended");
  }
}

}  // namespace

Exporter ort_genai_exporter() {
  return {"ort-genai", "the kv_cache_scale_file of onnxruntime-genai's model builder",
          false,       plan,
          read_back,   {},
          true,        "onnxruntime-genai"};
}

}  // namespace kvcal
