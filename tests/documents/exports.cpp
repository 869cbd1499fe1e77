// What export writes: a line for each target. The formats are those that the target accepts here, tried one by one; the
// rest is what is known of its readers.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "checkpoint/config_file.h"
#include "documents/tables.h"
#include "export/exporter.h"

namespace kvcal::documents {
namespace {

namespace fs = std::filesystem;

struct Known {
  std::string_view target, form, read_by, served;
};

constexpr std::array kKnown = {
    Known{"vllm",
          "plain weights: `self_attn.k_scale`, `v_scale`, `q_scale` and a compressed-tensors config about the cache "
          "alone; compressed-tensors, FP8, ModelOpt and Quark checkpoints by their own convention, with values that "
          "bfloat16 can hold, rounded up, where vLLM keeps scales in the model's dtype; scale files per head as "
          "`attn_head`",
          "vLLM 0.33.0, its loader executed", "vLLM, `--kv-cache-dtype fp8`; most classes of SGLang"},
    Known{"sglang", "the same under the names that its class of the model looks for, no query scales",
          "SGLang 0.5.23, its loader executed", "SGLang"},
    Known{"sglang-json", "one file, one scale per layer and rank (`--tp N`)", "SGLang's source, read",
          "SGLang, `--quantization-param-path`"},
    Known{"modelopt", "ModelOpt's own names; with `--recipe` [mixtures](#mixtures), listed by layer",
          "vLLM 0.33.0, its loader executed; the list: ModelOpt 0.48.0rc1, functions executed (`check_modelopt.py`)",
          "vLLM where all layers are FP8, or NVFP4; the list by no released server"},
    Known{"tgi", "the tensors, no config", "its source, read", "text-generation-inference"},
    Known{"quark", "Quark's own names", "vLLM 0.33.0, its loader executed; SGLang's source, read", "vLLM"},
    Known{"vllm-ascend",
          "a scale and an offset of 0 for each channel of keys and values, and `quant_model_description.json`; plain "
          "weights; [which classes](#vllm-ascend)",
          "vllm-ascend 0.23.0.post1 and 0.30.0rc2, functions executed (`check_vllm_ascend.py`)",
          "vLLM-Ascend, `--quantization ascend` (C8)"},
    Known{"ascend-mxfp8",
          "a power of two, as a byte, for each channel of values, none of keys, and `quant_model_description.json`; "
          "plain "
          "weights; [which hardware](#vllm-ascend)",
          "vllm-ascend 0.30.0rc2, functions executed (`check_vllm_ascend.py`)",
          "vLLM-Ascend 0.30, `--quantization ascend --kv-cache-dtype mxfp8` (C8-MXFP)"},
    Known{"lightllm", "one file: scales per layer (`fp8kv_spt`), or per head with those of queries (`fp8kv_sph`)",
          "its source, read", "LightLLM, `--kv_quant_calibration_config_path`"},
    Known{"ort-genai", "one file: scales per layer or per channel; scales per head become those of their channels",
          "onnxruntime-genai 0.18.0, functions executed (`check_ort_genai.py`)",
          "onnxruntime-genai's model builder, `kv_cache_scale_file`"},
    Known{"json", "one file: a map from attention modules to scales", "by `export` alone", "scripts"},
    Known{"scales", "the scale file with more `also_valid_for` (`--also-for ./Llama-AWQ`, repeatable)",
          "by `export` alone", "other copies of the model"}};

/// 'test_documents --update' runs outside of any test.
struct Models {
  fs::path path = fs::temp_directory_path() / ("kvcal exports " + std::to_string(::getpid()));
  Models() { fs::create_directories(path); }
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;
  ~Models() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// A plain model, and the same as two tools would have quantized it: some targets write into their own alone.
std::vector<fs::path> folders(const fs::path& where) {
  const fs::path golden = fs::path(KVCAL_SOURCE_DIR) / "tests/arch/golden/llama";
  const std::array<std::pair<const char*, Json>, 3> kinds = {
      {{"plain", nullptr},
       {"modelopt", {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}},
       {"quark", {{"quant_method", "quark"}, {"global_quant_config", {{"weight", {{"dtype", "fp8_e4m3"}}}}}}}}};
  std::vector<fs::path> made;
  for (const auto& [name, quantization] : kinds) {
    made.push_back(where / name);
    fs::create_directory(made.back());
    fs::copy_file(golden / "model.safetensors", made.back() / "model.safetensors");
    Json config = read_config(golden).config;
    if (!quantization.is_null()) config["quantization_config"] = quantization;
    std::ofstream(made.back() / "config.json") << config.dump();
  }
  // Heads of 64: narrower ones are none of some targets.
  made.push_back(golden.parent_path() / "qwen3_5_long");
  return made;
}

ArtifactSite site_of(const ArtifactQuantization& q, int64_t n_heads, int64_t width) {
  ArtifactSite site;
  site.scale = site.absmax = 1;
  const auto heads = static_cast<size_t>(n_heads), channels = static_cast<size_t>(n_heads * width);
  if (q.granularity == Granularity::Head) site.scale_per_head.assign(heads, 1);
  if (q.granularity == Granularity::Channel) site.scale_per_channel.assign(channels, 1);
  site.absmax_per_head.assign(heads, 1);
  return site;
}

Artifact artifact_of(const ModelIdentity& model, const char* format, Granularity granularity) {
  Artifact artifact;
  artifact.quantization.dtype = format;
  artifact.quantization.granularity = granularity;
  artifact.quantization.policy = "absmax";
  artifact.quantization.headroom = 1;
  artifact.model.architecture = model.spec.architecture;
  artifact.kv_cache.assign(model.spec.layers.size(), 1);
  for (const KvLayout& cache : model.spec.caches) {
    ArtifactLayer layer;
    layer.index = cache.layer;
    layer.kind = "gqa";
    layer.name = module_name(model.tensor_prefix, cache);
    layer.n_heads = cache.n_heads;
    layer.n_kv_heads = cache.n_kv_heads;
    layer.head_dim_k = layer.head_dim_v = cache.head_dim_k;
    layer.key = layer.value = site_of(artifact.quantization, cache.n_kv_heads, cache.head_dim_k);
    layer.query = site_of(artifact.quantization, cache.n_heads, 0);
    layer.joint.scale = 1;
    artifact.layers.push_back(layer);
  }
  return artifact;
}

bool takes(const Exporter& exporter, const fs::path& folder, const char* format, Granularity granularity) {
  const ModelIdentity model = identify_model(folder);
  const Carrier carrier = carrier_of(read_config(folder).config, folder);
  const Artifact artifact = artifact_of(model, format, granularity);
  const ExportOptions options;
  try {
    exporter.plan({artifact, model, carrier, options, "s.json", "out"});
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// "fp8_e4m3 per tensor, head; int8 per channel"
std::string formats_of(const Exporter& exporter, const std::vector<fs::path>& folders) {
  std::string text;
  for (const char* format : {"fp8_e4m3", "fp8_e4m3fnuz", "int8"}) {
    std::string by;
    for (const Granularity granularity : {Granularity::Tensor, Granularity::Head, Granularity::Channel}) {
      if (granularity == Granularity::Channel && std::string_view(format) != "int8") continue;  // solve makes none
      const auto takes_this = [&](const fs::path& folder) { return takes(exporter, folder, format, granularity); };
      if (std::ranges::any_of(folders, takes_this))
        by += (by.empty() ? " per " : ", ") + std::string(name_of(granularity));
    }
    if (!by.empty()) text += (text.empty() ? "`" : "; `") + std::string(format) + "`" + by;
  }
  if (exporter.own.flag == "--nvfp4") text += "; `nvfp4`";
  for (const std::string_view mixed : exporter.mixes) text += "; `" + std::string(mixed) + "` in a recipe";
  return text;
}

}  // namespace

std::string table_of_exports() {
  const Models folder;
  const std::vector<fs::path> models = folders(folder.path);
  std::string text =
      "| `--to` | what is added | formats of the scale file | single layers in 16 bits | read back by | served today "
      "|\n|---|---|---|---|---|---|\n";
  for (const Exporter& exporter : exporters()) {
    const auto known = std::ranges::find(kKnown, exporter.name, &Known::target);
    if (known == kKnown.end()) fail("exports.cpp does not say who reads '--to " + std::string(exporter.name) + "'");
    text += "| `" + std::string(exporter.name) + "` | " + std::string(known->form) + " | " +
            formats_of(exporter, models) + " | " + (exporter.keeps_none.empty() ? "yes" : "no") + " | " +
            std::string(known->read_by) + " | " + std::string(known->served) + " |\n";
  }
  return text +
         "| `pack` | [a pack](#packs), without weights | all | yes | `kvcal apply`, `kvcal validate` | whoever has the "
         "checkpoint |\n";
}

}  // namespace kvcal::documents
