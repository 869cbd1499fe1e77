#include "export/checkpoint_target.h"

#include <algorithm>
#include <set>

#include "artifact/json_text.h"
#include "artifact/nvfp4_scale.h"
#include "base/number_text.h"
#include "base/read_file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/kv_scale_names.h"
#include "export/serve.h"
#include "servers/stored_scales.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigBytes = size_t{32} << 20;

std::string title(ServerKind kind) {
  return std::string(kind == ServerKind::Vllm ? "vLLM " : "SGLang ") +
         str(verified_server(kind)).substr(kind == ServerKind::Vllm ? 5 : 7);
}

[[noreturn]] void fail_unloadable(const ExportInput& input, const ServerSupport& support) {
  std::string message = title(support.server.kind) + " loads no KV scales from a checkpoint of " +
                        std::string(support.architecture) + " (" + input.carrier.method + "): " + support.why_not;
  if (!support.plugin.empty()) message += "; " + plugin_advice(support, input);
  if (support.json && support.server.kind == ServerKind::Sglang) message += "; or '--to sglang-json'";
  message += fold_advice(support, input);
  fail(message);
}

ScaleSpelling own_convention(KvCarrier carrier, ScaleSpelling otherwise) {
  if (carrier == KvCarrier::ModelOpt) return ScaleSpelling::Projection;
  return carrier == KvCarrier::Quark ? ScaleSpelling::Output : otherwise;
}

Shape shape_of(const Naming& naming, size_t n) {
  if (naming.granularity == Granularity::Head) return Shape{static_cast<int64_t>(n), 1, 1};
  // As ModelOpt and Quark write them, and as compressed-tensors does.
  return naming.spelling == ScaleSpelling::Projection || naming.spelling == ScaleSpelling::Output ? Shape{} : Shape{1};
}

Json scheme(Granularity granularity) {
  return {{"num_bits", 8},
          {"type", "float"},
          {"strategy", granularity == Granularity::Head ? "attn_head" : "tensor"},
          {"symmetric", true},
          {"dynamic", false}};
}

/// What the cache is called as a whole, and the modules that are quantized where that does not say all, as ModelOpt
/// 0.48 lists them (export/quant_utils.py, get_quant_config). No released server reads the list.
std::vector<JsonMember> cache_members(const ExportInput& input, const CacheAlgorithms& cache, bool is_flat) {
  const std::string whole = cache.whole();
  std::vector<JsonMember> members;
  if (is_flat && whole == "FP8")
    members.push_back({"kv_cache_scheme", {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}}});
  else
    members.push_back({is_flat && whole == "NVFP4" ? "kv_cache_scheme" : "kv_cache_quant_algo", whole});
  if (!cache.is_list) return members;
  Json modules = Json::object();
  for (const auto& [module, algorithm] : cache.by_module) modules[module] = {{"quant_algo", algorithm}};
  members.push_back({"kv_cache_quantized_layers", modules});
  members.push_back({"kv_cache_schema_version", 1});
  if (!is_served(input, cache)) members.push_back({"kv_cache_deployment_supported", false});
  return members;
}

/// What was said of the cache gives way to the members.
std::string with_cache(const std::string& text, const std::vector<std::string>& path,
                       const std::vector<JsonMember>& members) {
  std::vector<std::string> stale = {"kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_quantized_layers",
                                    "kv_cache_schema_version", "kv_cache_deployment_supported"};
  std::erase_if(stale, [&](const std::string& key) {
    return std::ranges::find(members, key, &JsonMember::key) != members.end();
  });
  return set_json_members(remove_json_members(text, path, stale), path, members);
}

void compare_tensor(const Checkpoint& written, const ScaleTensor& planned) {
  const TensorInfo* info = written.find(planned.name);
  if (!info) fail("the tensor " + quoted(planned.name) + " is missing in the files written");
  const std::vector<std::byte> bytes = stored_bytes(planned);
  if (info->dtype != planned.dtype || info->bytes != bytes.size())
    fail("the tensor " + quoted(planned.name) + " was written as " + str(*info));
  std::vector<std::byte> found(bytes.size());
  written.read(planned.name, 0, found);
  if (found != bytes) fail("the tensor " + quoted(planned.name) + " has another value than intended");
}

}  // namespace

float held_in_model_dtype(float scale, bool half_precision, const std::string& name) {
  const float rounded = bf16_rounded_up(scale);
  if (half_precision && (rounded < 0x1p-14F || rounded > 65504.0F))
    fail(quoted(name) + " is " + float_text(scale) +
         ", which a float16 model cannot hold: the server keeps scales in the model's dtype; use a checkpoint whose "
         "dtype is bfloat16, or one without quantized weights");
  return rounded;
}

std::vector<std::string> replaced_scales(const ExportInput& input) {
  std::vector<std::string> there = kv_scale_tensors(Checkpoint::open(input.model.folder));
  if (there.empty() || input.options.replace_scales) return there;
  fail(quoted(input.model.folder.string()) + ": has " + std::to_string(there.size()) +
       " KV scale tensors already, first " + quoted(there[0]) +
       "; replace them with --replace-scales (shards that contain them are rewritten), or undo an export in place with "
       "'kvcal export --undo'");
}

Naming naming_for(const ExportInput& input, ServerKind server, KvCarrier carrier) {
  Naming naming;
  naming.support = server_support(verified_server(server), input.model.spec.architecture, carrier);
  if (!naming.support.loads) fail_unloadable(input, naming.support);
  naming.spelling = own_convention(carrier, naming.support.write);
  if (!loads(effect_of(naming.support, naming.spelling, 'k'))) naming.spelling = naming.support.write;
  naming.query = input.options.query && server == ServerKind::Vllm && loads(naming.support.query);
  naming.half_precision = input.carrier.half_precision;
  naming.rounded = carrier == KvCarrier::Fp8 || carrier == KvCarrier::ModelOpt || carrier == KvCarrier::Quark;
  return naming;
}

void add_tensors(const std::vector<LayerScales>& scales, const Naming& naming, ExportPlan& plan) {
  const auto add = [&](const LayerScales& layer, const char* site, const std::string& name, std::vector<float> values) {
    if (naming.rounded)
      for (float& value : values) value = held_in_model_dtype(value, naming.half_precision, name);
    plan.tensors.push_back({name, shape_of(naming, values.size()), values});
    plan.scales.push_back({layer.layer, site, name, std::move(values)});
  };
  // The query's other spellings are dropped without a word.
  const ScaleSpelling of_query =
      naming.spelling == ScaleSpelling::Native ? ScaleSpelling::Native : ScaleSpelling::Attention;
  for (const LayerScales& layer : scales) {
    add(layer, "key", layer.module + scale_suffix(naming.spelling, 'k'), layer.key);
    add(layer, "value", layer.module + scale_suffix(naming.spelling, 'v'), layer.value);
    if (naming.query) add(layer, "query", layer.module + scale_suffix(of_query, 'q'), layer.query);
  }
}

TextFile edited_config(const ExportInput& input, const std::vector<std::string>& path,
                       const std::vector<JsonMember>& members) {
  const fs::path config = input.model.folder / "config.json";
  const std::string text = read_file(config, kConfigBytes);
  return {"config.json", while_doing(quoted(config.string()), [&] { return set_json_members(text, path, members); })};
}

TextFile compressed_tensors_config(const ExportInput& input, Granularity granularity) {
  if (!input.carrier.path.empty() && input.carrier.kind == KvCarrier::CompressedTensors) {
    std::vector<JsonMember> members = {{"kv_cache_scheme", scheme(granularity)}};
    // vLLM looks up head counts only where this key is.
    if (!find_member(input.carrier.config, "config_groups")) members.push_back({"config_groups", Json::object()});
    return edited_config(input, input.carrier.path, members);
  }
  // What llm-compressor writes for a cache alone, with the five keys of a scheme that every reader knows.
  const Json block = {
      {"quant_method", "compressed-tensors"},   {"format", "dense"},       {"quantization_status", "compressed"},
      {"config_groups", Json::object()},        {"ignore", Json::array()}, {"global_compression_ratio", nullptr},
      {"kv_cache_scheme", scheme(granularity)}, {"version", "0.18.0"}};
  return edited_config(input, {}, {{"quantization_config", block}});
}

std::string CacheAlgorithms::whole() const {
  std::set<std::string> names;
  for (const auto& [module, algorithm] : by_module) names.insert(algorithm);
  return names.size() == 1 ? *names.begin() : "MIXED_PRECISION";
}

CacheAlgorithms cache_algorithms(const ExportInput& input, const std::function<std::string(int)>& of_layer) {
  CacheAlgorithms cache;
  const std::vector<int> kept = skipped_layers(input.artifact, input.options);
  for (const LayerScales& layer : layer_scales(input.artifact, input.model, Granularity::Tensor))
    if (!std::ranges::binary_search(kept, layer.owner)) cache.by_module[layer.module] = of_layer(layer.owner);
  cache.is_list = !kept.empty() || cache.whole() == "MIXED_PRECISION";
  return cache;
}

bool is_served(const ExportInput& input, const CacheAlgorithms& cache) {
  return input.carrier.weights_quantized && (cache.whole() == "FP8" || cache.whole() == "NVFP4");
}

std::vector<TextFile> modelopt_configs(const ExportInput& input, const CacheAlgorithms& cache) {
  std::vector<TextFile> files;
  if (!input.carrier.path.empty()) {
    std::vector<std::string> path = input.carrier.path;
    const Json* nested = find_member(input.carrier.config, "quantization");
    const bool old_form = nested && nested->is_object();
    if (old_form) path.emplace_back("quantization");
    const fs::path config = input.model.folder / "config.json";
    files.push_back({"config.json", while_doing(quoted(config.string()), [&] {
                       return with_cache(read_file(config, kConfigBytes), path, cache_members(input, cache, !old_form));
                     })});
  }
  const fs::path beside = input.model.folder / "hf_quant_config.json";
  std::error_code ignored;
  if (fs::is_regular_file(beside, ignored))
    files.push_back({"hf_quant_config.json", while_doing(quoted(beside.string()), [&] {
                       return with_cache(read_file(beside, kConfigBytes), {"quantization"},
                                         cache_members(input, cache, false));
                     })});
  return files;
}

std::vector<TextFile> modelopt_configs(const ExportInput& input) {
  if (!input.carrier.weights_quantized)
    fail(
        "this ModelOpt checkpoint has no quant_algo: its weights are not quantized, and vLLM and SGLang refuse such a "
        "config; export into the original checkpoint with '--to vllm' or '--to sglang'");
  return modelopt_configs(input, cache_algorithms(input, [](int) { return "FP8"; }));
}

std::vector<TextFile> new_modelopt_configs(const ExportInput& input, const CacheAlgorithms& cache) {
  const auto object_of = [](std::initializer_list<JsonMember> first, const std::vector<JsonMember>& members) {
    Json object = Json::object();
    for (const JsonMember& m : first) object[m.key] = m.value;
    for (const JsonMember& m : members) object[m.key] = m.value;
    return object;
  };
  const Json inside =
      object_of({{"quant_method", "modelopt"}, {"ignore", Json::array()}}, cache_members(input, cache, true));
  const Json beside = object_of({{"quant_algo", nullptr}}, cache_members(input, cache, false));
  return {edited_config(input, {}, {{"quantization_config", inside}}),
          {"hf_quant_config.json", json_text(Json{{"producer", {{"name", "kvcal"}}}, {"quantization", beside}})}};
}

void read_back_folder(const ExportInput& input, const ExportPlan& plan, const fs::path& written) {
  const Checkpoint checkpoint = Checkpoint::open(written);
  std::set<std::string> planned;
  for (const ScaleTensor& tensor : plan.tensors) planned.insert(tensor.name);
  const ModelSpec& spec = input.model.with_mtp ? *input.model.with_mtp : input.model.spec;
  const StoredScales stored = read_stored_scales(checkpoint, spec);
  if (!stored.unlisted.empty())
    fail("the index does not name the scale " + quoted(stored.unlisted.front().tensor) +
         ", so servers would ignore it");
  using Owner = StoredScale::Owner;
  for (const StoredScale& scale : stored.tensors)
    if (!planned.contains(scale.tensor) || (scale.owner != Owner::Cache && scale.owner != Owner::SharedKv))
      fail("the files written have an unexpected KV scale: " + quoted(scale.tensor));
  for (const ScaleTensor& tensor : plan.tensors) compare_tensor(checkpoint, tensor);
  const ModelIdentity identity = identify_model(written);
  if (identity.weights_fingerprint != input.model.weights_fingerprint)
    fail("the files written have other weights than the model; is another program rewriting it?");
  // Quark says what it does to the cache among the things it does to weights.
  if (input.carrier.kind != KvCarrier::Quark && identity.config_sha256 != input.model.config_sha256)
    fail("the config that was written differs from the model's in more than its KV cache");
}

void add_sglang_command(const ExportInput& input, const Naming& naming, const char* dtype, Serving& serving) {
  if (const std::vector<int> kept = skipped_layers(input.artifact, input.options); !kept.empty())
    return serving.notes.push_back("not for SGLang: it cannot keep layer(s) " + layer_list(kept) +
                                   " in the model's dtype");
  const ServerSupport sglang =
      server_support(verified_server(ServerKind::Sglang), input.model.spec.architecture, naming.support.carrier);
  const Effect effect = effect_of(sglang, naming.spelling, 'k');
  if (sglang.loads && loads(effect))
    serving.commands.push_back(sglang_command(input.out.string(), dtype));
  else if (sglang.loads)
    serving.notes.push_back("not for " + title(ServerKind::Sglang) + ": its " + std::string(sglang.architecture) +
                            " expects other names ('" + scale_suffix(naming.spelling, 'k') +
                            "': " + std::string(name_of(effect)) + "); use '--to sglang'");
  else
    serving.notes.push_back("not for " + title(ServerKind::Sglang) + ": " + sglang.why_not);
}

void add_evidence(const Naming& naming, Serving& serving) {
  serving.notes.push_back("known from: " + naming.support.source +
                          "; the attention backend applies it: " + naming.support.backend);
}

}  // namespace kvcal
