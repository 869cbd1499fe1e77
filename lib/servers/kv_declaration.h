// How a checkpoint declares its quantization, as far as servers and their KV cache go: compressed-tensors'
// kv_cache_scheme, ModelOpt's kv_cache_quant_algo, ...
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "servers/server_support.h"

namespace kvcal {

/// ModelOpt's kv_cache_quantized_layers: the cache's algorithm by attention module, "" where none is said.
struct KvLayerList {
  std::string schema;  // kv_cache_schema_version as written
  std::map<std::string, std::string> modules;
  bool operator==(const KvLayerList&) const = default;
};

struct KvDeclaration {
  std::string method;           // quant_method as written; "" when there is no quantization_config
  std::string source;           // the file that says it, "config.json" or "hf_quant_config.json"; "" when none does
  bool in_text_config = false;  // below text_config, where servers look second
  std::optional<Json> scheme;   // kv_cache_scheme: an object, or ModelOpt's string "NVFP4"
  std::string algorithm;    // kv_cache_quant_algo: "FP8", "NVFP4", "FP8_K_NVFP4_V", ...; of Quark the cache's dtype,
                            // "fp8_e4m3"; "" when not said
  std::string quark_error;  // why the servers' classes for Quark refuse what it says of the cache; "" when they do not
  std::string passed_over;  // the algorithm of hf_quant_config.json, where config.json has a quantization_config
  bool has_no_server = false;                    // ModelOpt's kv_cache_deployment_supported is false
  std::optional<KvLayerList> list, list_beside;  // of the file that says it; of hf_quant_config.json beside it
  bool has_config_groups = false;
  std::string weights;              // quant_algo: "FP8", "NVFP4", "MIXED_PRECISION"; "" when not said
  std::string producer;             // "modelopt" of ModelOpt's files, "" otherwise
  bool block_weights = false;       // weight_block_size is said
  bool static_activations = false;  // activation_scheme "static"

  bool is_compressed_tensors() const { return method == "compressed-tensors"; }
  bool is_modelopt() const { return method.starts_with("modelopt"); }
  /// Whether the folder declares a quantized cache: a scheme or an algorithm.
  bool declares_cache() const { return scheme.has_value() || !algorithm.empty(); }
};

/// What the keys or values of a module are stored in: "fp8", also where nothing is said, as with --kv-cache-dtype fp8;
/// "int8"; "nvfp4", whose scale is one of block scales; "" for 16 bits, and for what is not known.
std::string cache_format(const KvDeclaration& declaration, const std::string& module, bool values);

/// Reads quantization_config of config.json (or of its text_config), else hf_quant_config.json beside it. What is of a
/// wrong type counts as absent; only broken JSON of that file, or of others beside it, is an Error, and patterns of
/// Quark's that are far more than a model needs.
KvDeclaration read_kv_declaration(const Json& config, const std::filesystem::path& folder);

/// The number of bits, type, strategy and so on of a scheme, with "" for what is absent: "float", "tensor".
std::string scheme_text(const Json& scheme, const char* key);

/// As what the server takes it, as far as making parameters for scales goes.
KvCarrier carrier_of(const KvDeclaration& declaration, ServerKind server);

/// Why a server does not start with this declaration, whatever the tensors; "" when it does.
std::string declaration_error(const KvDeclaration& declaration, ServerKind server);

/// What --kv-cache-dtype auto becomes under the server: "fp8", "nvfp4", or "" for the type of the model. Of vLLM 0.33.0
/// (get_kv_cache_quant_algo_string: the scheme goes before the algorithm, words in any case) and SGLang 0.5.23
/// (configure_kv_cache_dtype: FP8 alone).
std::string auto_cache_type(const KvDeclaration& declaration, ServerKind server);
bool auto_is_fp8(const KvDeclaration& declaration, ServerKind server);

/// A cache that is declared and that neither server makes by itself, such as ModelOpt's FP8_K_NVFP4_V or NVFP4_AFFINE,
/// as a sentence without its end; "" for none.
std::string unserved_cache(const KvDeclaration& declaration);

/// The same of a cache that vLLM does not see, since the file that declares it lies beside a quantization_config.
std::string passed_over_cache(const KvDeclaration& declaration);

}  // namespace kvcal
