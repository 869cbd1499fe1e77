#include "servers/kv_declaration.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/json_text.h"
#include "base/letter_case.h"
#include "checkpoint/quantization.h"
#include "checkpoint/quantization_config.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

const Json* find_object(const Json& object, const char* key) {
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member && member->is_object() ? member : nullptr;
}

bool flag_is(const Json& scheme, const char* key, bool value) {
  const Json* member = find_member(scheme, key);
  return member && member->is_boolean() && member->get<bool>() == value;
}

/// What the first of the patterns that is of a layer says. Throws Error for more patterns than a model needs.
const Json* first_match(const Json& patterns, const Json& layers) {
  constexpr size_t kMostPairs = 1'000'000;
  std::map<std::string_view, const Json*> named;
  for (const auto& [name, entry] : layers.items()) named.try_emplace(name, &entry);
  size_t n_pairs = 0;
  for (const Json& pattern : patterns) {
    if (!pattern.is_string()) continue;
    const std::string& text = pattern.get_ref<const std::string&>();
    if (text.find_first_of("*?[") == std::string::npos) {
      if (const auto found = named.find(text); found != named.end()) return found->second;
      continue;
    }
    n_pairs += named.size();
    if (n_pairs > kMostPairs) fail("kv_cache_group: too many patterns for as many layers as layer_quant_config has");
    for (const auto& [name, entry] : layers.items())
      if (fnmatch(text.c_str(), name.c_str(), FNM_NOESCAPE) == 0) return &entry;
  }
  return nullptr;
}

/// Quark's kv_cache_group names patterns of layers whose outputs are the cache. In this order, and with these words,
/// vLLM 0.33.0 and SGLang 0.5.23 look at it (quark.py, from_config and validate_kv_cache_config); SGLang takes exact
/// names in place of patterns. Without an option neither makes the cache FP8.
void read_quark(const Json& q, KvDeclaration& d) {
  const Json* exported = find_object(q, "export");
  const Json* group = exported ? find_member(*exported, "kv_cache_group") : nullptr;
  if (!group || !group->is_array() || group->empty()) return;
  const Json* layers = find_object(q, "layer_quant_config");
  const Json* output = layers != nullptr ? first_match(*group, *layers) : nullptr;
  if (output == nullptr) {
    d.quark_error = "kv_cache_group is set, but no kv_cache quantization settings were found in layer_quant_config";
    return;
  }
  output = find_object(*output, "output_tensors");
  if (output == nullptr) {
    d.quark_error = "The kv_cache quantization configuration is empty.";
    return;
  }
  d.algorithm = text_at(*output, "dtype");
  const std::string scheme = text_at(*output, "qscheme");
  if (d.algorithm != "fp8_e4m3")
    d.quark_error = "Currently supported kv cache quantization is dtype=fp8_e4m3, however received " + d.algorithm;
  else if (scheme != "per_tensor")
    d.quark_error =
        "Only support per-tensor scaling factor for quark KV cache. Expected qscheme: per_tensor, found qscheme: " +
        scheme;
}

std::optional<KvLayerList> read_list(const Json& quantization) {
  const Json* modules = find_object(quantization, "kv_cache_quantized_layers");
  if (!modules) return std::nullopt;
  KvLayerList list{scheme_text(quantization, "kv_cache_schema_version"), {}};
  for (const auto& [module, said] : modules->items())
    list.modules[module] = said.is_object() ? text_at(said, "quant_algo") : "";
  return list;
}

void read_keys(const Json& given, KvDeclaration& d) {
  const Json* nested = find_object(given, "quantization");
  const Json& q = nested ? *nested : given;
  if (d.method.empty()) d.method = text_at(given, "quant_method");
  if (!q.is_object()) return;
  if (d.method.empty()) d.method = text_at(q, "quant_method");
  if (const Json* scheme = find_member(q, "kv_cache_scheme"); scheme && (scheme->is_object() || scheme->is_string()))
    d.scheme = *scheme;
  d.algorithm = text_at(q, "kv_cache_quant_algo");
  d.has_no_server = flag_is(q, "kv_cache_deployment_supported", false);
  d.list = read_list(q);
  d.has_config_groups = find_object(q, "config_groups") != nullptr;
  d.weights = text_at(q, "quant_algo");
  const Json* producer = find_object(given, "producer");
  d.producer = producer ? text_at(*producer, "name") : "";
  if (d.method == "quark") read_quark(q, d);
}

bool is_float(const Json& scheme, const char* bits) {
  return scheme_text(scheme, "type") == "float" && scheme_text(scheme, "num_bits") == bits;
}

bool is_float8(const Json& scheme) { return is_float(scheme, "8"); }

/// "fp8" of a static scheme of 8 bits or the words; what else a word says, in lower case.
std::string modelopt_cache(const KvDeclaration& d) {
  if (d.scheme && d.scheme->is_object() && !d.scheme->empty()) {
    if (is_float8(*d.scheme) && flag_is(*d.scheme, "dynamic", false)) return "fp8";
    return is_float(*d.scheme, "4") ? "nvfp4" : "";
  }
  const std::string word = d.scheme && d.scheme->is_string() ? d.scheme->get<std::string>() : "";
  return lower_case(word.empty() ? d.algorithm : word);
}

/// Of every cache, with static scales: "fp8", "nvfp4", "int8", or another word; "" where none of them is said.
std::string declared_format(const KvDeclaration& d) {
  if (d.is_modelopt()) return modelopt_cache(d);
  if (d.scheme && d.scheme->is_object()) {
    if (flag_is(*d.scheme, "dynamic", true)) return "";
    if (is_float8(*d.scheme)) return "fp8";
    return is_float(*d.scheme, "4") ? "nvfp4" : "int" + scheme_text(*d.scheme, "num_bits");
  }
  const std::string word = lower_case(d.scheme ? d.scheme->get<std::string>() : d.algorithm);
  return word == "fp8_e4m3" ? "fp8" : word;
}

/// The same as SGLang's ModelOpt classes have it: an object counts whether it is static or not, a word instead of one
/// with weights of NVFP4 alone.
std::string modelopt_cache_of_sglang(const KvDeclaration& d) {
  if (d.scheme && d.scheme->is_object()) return is_float8(*d.scheme) ? "fp8" : "";
  const bool reads_word = d.weights.find("NVFP4") != std::string::npos;
  const std::string word = d.scheme && reads_word ? lower_case(d.scheme->get<std::string>()) : "";
  return word.empty() ? lower_case(d.algorithm) : word == "float8" ? "fp8" : word;
}

/// Static, per tensor, 8-bit float: SGLang's condition for compressed-tensors. A missing `symmetric` passes.
bool sglang_takes(const Json& scheme) {
  return scheme.is_object() && is_float8(scheme) && scheme_text(scheme, "strategy") == "tensor" &&
         !flag_is(scheme, "symmetric", false) && !flag_is(scheme, "dynamic", true);
}

std::string vllm_scheme_error(const Json& scheme, const KvDeclaration& d) {
  if (!scheme.is_object()) return "kv_cache_scheme is not an object";
  const auto shown = [](const std::string& text) { return text.empty() ? std::string("None") : text; };
  if (!is_float8(scheme))
    return "Currently supported kv cache quantization is num_bits=8, type=float, however received num_bits=" +
           shown(scheme_text(scheme, "num_bits")) + ", type=" + shown(scheme_text(scheme, "type"));
  const std::string strategy = scheme_text(scheme, "strategy");
  if (strategy != "tensor" && strategy != "attn_head")
    return "kv_cache_scheme has the strategy " + shown(strategy) + ", expected tensor or attn_head";
  if (!flag_is(scheme, "symmetric", true))
    return "Only support symmetric scaling factor for compressed-tensors KV cache. However found symmetric: " +
           shown(scheme_text(scheme, "symmetric"));
  if (strategy == "attn_head" && !d.has_config_groups)
    return "strategy attn_head without config_groups (a bare AssertionError)";
  return "";
}

/// ModelOpt's hf_quant_config.json; null where there is none.
Json read_side_file(const fs::path& folder) {
  const fs::path path = folder / "hf_quant_config.json";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return nullptr;
  return read_json_file(path, {.max_bytes = size_t{32} << 20, .max_depth = 64});
}

KvDeclaration read_cache(const Json& config, const fs::path& folder) {
  KvDeclaration d;
  using Path = std::vector<std::string>;
  for (const QuantizationConfig& found : quantization_configs(config)) {
    d.in_text_config = found.path == Path{"text_config", "quantization_config"};
    if (!d.in_text_config && found.path != Path{"quantization_config"}) continue;
    d.source = "config.json";
    read_keys(*found.object, d);
    return d;
  }
  const Json json = read_side_file(folder);
  if (json.is_null()) return d;
  d.source = "hf_quant_config.json";
  d.method = "modelopt";
  read_keys(json, d);
  return d;
}

}  // namespace

KvDeclaration read_kv_declaration(const Json& config, const fs::path& folder) {
  KvDeclaration d = read_cache(config, folder);
  if (d.source == "config.json" && (!d.declares_cache() || d.list)) {
    KvDeclaration beside;
    read_keys(read_side_file(folder), beside);
    if (!d.declares_cache()) d.passed_over = beside.algorithm;
    d.list_beside = beside.list;
  }
  const Json weights = find_quantization(config, folder);
  d.block_weights = weights.is_object() && find_member(weights, "weight_block_size") != nullptr;
  d.static_activations = text_at(weights, "activation_scheme") == "static";
  return d;
}

std::string scheme_text(const Json& scheme, const char* key) {
  const Json* member = scheme.is_object() ? find_member(scheme, key) : nullptr;
  if (!member || !member->is_primitive()) return "";
  return member->is_string() ? member->get<std::string>() : member->dump();
}

std::string cache_format(const KvDeclaration& d, const std::string& module, bool values) {
  std::string said = d.declares_cache() ? declared_format(d) : "fp8";
  if (d.list) {
    const auto listed = d.list->modules.find(module);
    said = listed == d.list->modules.end() ? "" : lower_case(listed->second);
  }
  if (said == "fp8_k_nvfp4_v") return values ? "nvfp4" : "fp8";
  if (said.starts_with("nvfp4")) return "nvfp4";
  return said == "fp8" || said == "int8" ? said : "";
}

KvCarrier carrier_of(const KvDeclaration& d, ServerKind server) {
  const bool sglang = server == ServerKind::Sglang;
  if (d.method.empty() && d.source.empty()) return KvCarrier::None;
  if (d.is_compressed_tensors()) {
    if (d.scheme && scheme_text(*d.scheme, "strategy") == "attn_head") return KvCarrier::PerHead;
    return sglang && !(d.scheme && sglang_takes(*d.scheme)) ? KvCarrier::Other : KvCarrier::CompressedTensors;
  }
  if (d.is_modelopt()) {
    const bool only_declared = sglang || d.method == "modelopt_mixed";
    return only_declared && !d.declares_cache() ? KvCarrier::Other : KvCarrier::ModelOpt;
  }
  if (d.method == "fp8") return KvCarrier::Fp8;
  return d.method == "quark" ? KvCarrier::Quark : KvCarrier::Other;
}

std::string declaration_error(const KvDeclaration& d, ServerKind server) {
  const bool vllm = server == ServerKind::Vllm;
  if (d.is_modelopt() && d.weights.empty())
    return vllm ? "Missing 'quant_algo' in quantization config"
                : "AttributeError: 'NoneType' object has no attribute 'upper' (no quant_algo)";
  if (vllm && d.is_compressed_tensors() && d.scheme) return vllm_scheme_error(*d.scheme, d);
  return d.quark_error;
}

std::string auto_cache_type(const KvDeclaration& d, ServerKind server) {
  const bool vllm = server == ServerKind::Vllm;
  if (d.is_compressed_tensors())
    return d.scheme && (vllm ? d.scheme->is_object() : sglang_takes(*d.scheme)) ? "fp8" : "";
  if (!d.is_modelopt()) return !vllm && d.method == "fp8" && lower_case(d.algorithm) == "fp8" ? "fp8" : "";
  const std::string cache = vllm ? modelopt_cache(d) : modelopt_cache_of_sglang(d);
  return cache == "fp8" || (vllm && cache == "nvfp4") ? cache : "";
}

bool auto_is_fp8(const KvDeclaration& d, ServerKind server) { return auto_cache_type(d, server) == "fp8"; }

// Servers read neither the list of layers nor kv_cache_deployment_supported: they make the cache that the word names.
std::string unserved_cache(const KvDeclaration& d) {
  const std::string cache = d.is_modelopt() ? modelopt_cache(d) : "";
  const std::string itself = d.has_no_server ? "; it says itself that servers do not support it" : "";
  if (cache.empty() || cache == "fp8" || cache == "nvfp4")
    return d.has_no_server && d.list ? d.source + " lists the caches of layers, which no server reads" + itself : "";
  return d.source + " declares " + (d.algorithm.empty() ? "a cache" : "the cache " + quoted(d.algorithm)) +
         ", which vLLM 0.33.0 and SGLang 0.5.23 do not know: under auto theirs stays in 16 bits" + itself;
}

std::string passed_over_cache(const KvDeclaration& d) {
  if (d.passed_over.empty()) return "";
  return "hf_quant_config.json declares the cache " + quoted(d.passed_over) +
         ", but vLLM does not read it beside the quantization_config of config.json: under auto its cache stays in "
         "16 bits";
}

}  // namespace kvcal
