#include "checkpoint/quantization.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config_file.h"
#include "checkpoint/quantization_config.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// A short text for any value: words as they are (untrusted, so cleaned), numbers as JSON.
std::string word(const Json& value) {
  if (!value.is_string()) return value.is_primitive() ? value.dump() : "";
  const std::string safe = quoted(value.get_ref<const std::string&>());
  return safe.substr(1, safe.size() - 2);
}

std::string printed_at(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  return value ? word(*value) : "";
}

void append(std::string& list, const std::string& item) {
  if (!item.empty()) list += (list.empty() ? "" : ", ") + item;
}

/// "float 8 bits, per tensor" from a compressed-tensors or ModelOpt scheme.
std::string describe_scheme(const Json& scheme) {
  if (!scheme.is_object()) return word(scheme);
  std::string text = printed_at(scheme, "type");
  if (const std::string bits = printed_at(scheme, "num_bits"); !bits.empty())
    text += (text.empty() ? "" : " ") + bits + " bits";
  const std::string strategy = printed_at(scheme, "strategy");
  append(text, strategy.empty() ? "" : "per " + strategy);
  if (const Json* dynamic = find_member(scheme, "dynamic"); dynamic && *dynamic == true) append(text, "dynamic");
  return text.empty() ? "a scheme without known keys" : text;
}

std::string describe_kv(const Json& quantization) {
  for (const char* key : {"kv_cache_scheme", "kv_cache_quant_algo", "kv_cache_dtype"})
    if (const Json* value = find_member(quantization, key)) return describe_scheme(*value);
  return "";
}

/// The distinct weight formats of compressed-tensors groups: "float 8 bits, per block".
void append_groups(std::string& detail, const Json& quantization) {
  const Json* groups = find_member(quantization, "config_groups");
  if (!groups || !groups->is_object()) return;
  std::set<std::string> seen;
  for (const auto& group : groups->items()) {
    const Json* weights = group.value().is_object() ? find_member(group.value(), "weights") : nullptr;
    if (weights && seen.size() < 4 && seen.insert(describe_scheme(*weights)).second)
      append(detail, "weights " + describe_scheme(*weights));
  }
}

std::string describe_detail(const Json& quantization) {
  std::string detail;
  for (const char* key : {"quant_algo", "format", "fmt", "checkpoint_format", "packing_format"})
    append(detail, printed_at(quantization, key));
  if (const Json* block = find_member(quantization, "weight_block_size");
      block && block->is_array() && block->size() == 2)
    append(detail, word((*block)[0]) + "x" + word((*block)[1]) + " blocks");
  for (const char* key : {"bits", "w_bit"})
    if (const std::string bits = printed_at(quantization, key); !bits.empty()) append(detail, bits + " bits");
  for (const char* key : {"group_size", "q_group_size"})
    if (const std::string size = printed_at(quantization, key); !size.empty()) append(detail, "groups of " + size);
  append_groups(detail, quantization);
  return detail;
}

/// ModelOpt's own file keeps everything in a member of this name.
const Json& unwrapped(const Json& given) {
  const Json* nested = given.is_object() ? find_member(given, "quantization") : nullptr;
  return nested && nested->is_object() ? *nested : given;
}

constexpr std::string_view kAutoRound[] = {"auto-round", "auto_round", "intel/auto-round", "inc"};

template <size_t N>
bool is_one_of(const std::string_view (&words)[N], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Formats whose tensors may be taken for those of another, or whose weights are in none that has a plain name.
std::string name_unread(const std::string& method, const Json& q) {
  constexpr std::string_view kMethods[] = {"aqlm",   "bitblas",     "bitnet",   "bitsandbytes", "eetq",   "exl2",
                                           "exl3",   "fouroversix", "fp_quant", "gguf",         "higgs",  "hqq",
                                           "marlin", "metal",       "mlx",      "owq",          "quanto", "quip",
                                           "sinq",   "spqr",        "svdquant", "torchao",      "vptq",   "w4afp8"};
  constexpr std::string_view kAwqVersions[] = {"gemv", "gemv_fast", "marlin"};
  constexpr std::string_view kGptqFormats[] = {"marlin", "bitblas"};
  constexpr std::string_view kSparse[] = {"sparse-bitmask", "sparse-24-bitmask", "marlin-24"};
  if (is_one_of(kMethods, method)) return method;
  if (method == "awq") {
    if (printed_at(q, "backend") == "llm-awq") return "AWQ llm-awq";
    if (const std::string version = printed_at(q, "version"); is_one_of(kAwqVersions, version)) return "AWQ " + version;
    for (const char* key : {"bits", "w_bit"})
      if (const std::string bits = printed_at(q, key); !bits.empty() && bits != "4")
        return "AWQ with " + bits + " bits";
  }
  if (is_one_of(kAutoRound, method) && printed_at(q, "packing_format").ends_with("awq") && printed_at(q, "bits") != "4")
    return "AWQ with " + printed_at(q, "bits") + " bits";
  if (method == "gptq") {
    if (const std::string format = printed_at(q, "checkpoint_format"); is_one_of(kGptqFormats, format))
      return "GPTQ " + format;
    if (const Json* marlin = find_member(q, "is_marlin_format"); marlin && *marlin == true) return "GPTQ marlin";
  }
  if (method == "compressed-tensors") {
    const Json* sparsity = find_member(q, "sparsity_config");
    for (const Json* said : {&q, sparsity})
      if (said && said->is_object() && is_one_of(kSparse, printed_at(*said, "format")))
        return "compressed-tensors " + printed_at(*said, "format");
  }
  if (method == "modelopt" && printed_at(q, "quant_algo") == "NVFP4_SVD") return "ModelOpt NVFP4_SVD";
  return "";
}

QuantizationSummary summarize(const Json& given, std::string fallback_method, std::string source) {
  QuantizationSummary summary;
  const Json& quantization = unwrapped(given);
  summary.source = std::move(source);
  summary.weights_quantized = quantizes_weights(given);
  summary.method = printed_at(given, "quant_method");
  if (summary.method.empty()) summary.method = std::move(fallback_method);
  if (summary.method.empty()) summary.method = find_member(quantization, "quant_algo") ? "modelopt" : "unknown";
  summary.unread = name_unread(summary.method, quantization);  // sparse weights may be of full precision
  if (summary.weights_quantized) {
    summary.detail = describe_detail(quantization);
  } else {
    summary.method = "none";
  }
  summary.kv_cache = describe_kv(quantization);
  return summary;
}

struct Found {
  const Json* quantization;
  std::string source;
  std::string method;  // when the object itself does not say
};

Found find_in_config(const Json& config) {
  const std::vector<QuantizationConfig> all = quantization_configs(config);
  if (all.empty()) return {nullptr, "", ""};
  const QuantizationConfig& first = all.front();
  std::string source = "config.json";
  for (size_t i = 0; i + 1 < first.path.size(); ++i) source += " " + first.path[i];
  const bool compressed = first.path.back() == "compression_config";
  return {first.object, source, first.is_mlx ? "mlx" : compressed ? "compressed-tensors" : ""};
}

constexpr struct {
  const char* file;
  const char* method;
} kSideFiles[] = {{"hf_quant_config.json", "modelopt"}, {"quantize_config.json", "gptq"}, {"quant_config.json", "awq"}};

/// Null when there is no such file.
Json read_side_file(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return nullptr;
  return read_json_file(path, {.max_bytes = size_t{32} << 20, .max_depth = 64, .allow_non_finite = true});
}

}  // namespace

Json find_quantization(const Json& config, const fs::path& folder) {
  const Found found = find_in_config(config);
  if (found.quantization && quantizes_weights(*found.quantization)) return unwrapped(*found.quantization);
  for (const auto& side : kSideFiles)
    if (const Json json = read_side_file(folder / side.file); quantizes_weights(json)) return unwrapped(json);
  return nullptr;
}

QuantizationSummary describe_quantization(const Json& config, const fs::path& folder) {
  QuantizationSummary summary;
  summary.method = "none";
  if (const Found found = find_in_config(config); found.quantization)
    summary = summarize(*found.quantization, found.method, found.source);
  for (const auto& side : kSideFiles) {
    const Json json = read_side_file(folder / side.file);
    if (json.is_null()) continue;
    const QuantizationSummary beside = summarize(json, side.method, side.file);
    // config.json goes first, as for the servers; the file beside it fills what that leaves open.
    if (summary.kv_cache.empty() && !beside.kv_cache.empty())
      summary.kv_cache = beside.kv_cache + (summary.source.empty() ? "" : " by " + beside.source);
    if (!summary.weights_quantized && beside.weights_quantized) {
      const std::string kv_cache = summary.kv_cache;
      summary = beside;
      summary.kv_cache = kv_cache;
    }
    if (summary.source.empty()) summary.source = beside.source;
  }
  return summary;
}

bool is_readable(const QuantizationSummary& summary) {
  if (!summary.unread.empty()) return false;
  if (!summary.weights_quantized) return true;
  // INT4 of ModelOpt is made for TensorRT-LLM alone (formats/modelopt_int4.cpp).
  for (const char* algorithm : {"INT4_AWQ", "W4A16_AWQ", "W4A8_AWQ"})
    if (summary.method == "modelopt" && summary.detail.find(algorithm) != std::string::npos) return false;
  constexpr std::string_view kMethods[] = {
      "fp8",   "fbgemm_fp8", "compressed-tensors", "modelopt",  "modelopt_fp4",   "awq",    "gptq", "mxfp4",
      "mxfp8", "quark",      "w8a8_fp8",           "w8a8_int8", "blockwise_int8", "unknown"};
  return is_one_of(kMethods, summary.method) || is_one_of(kAutoRound, summary.method);
}

std::string str(const QuantizationSummary& summary) {
  std::string text = summary.method;
  if (!summary.detail.empty()) text += " (" + summary.detail + ")";
  if (!summary.kv_cache.empty()) text += ", KV cache " + summary.kv_cache;
  if (!summary.source.empty()) text += "; says " + summary.source;
  return text;
}

std::string stored_name(const Checkpoint& checkpoint, std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  if (checkpoint.has(weight)) return std::string(weight);
  const std::string stem(weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : weight);
  for (const char* suffix : {".qweight", ".weight_packed", "_packed", "_blocks"})
    if (checkpoint.has(stem + suffix)) return stem + suffix;
  return "";
}

bool is_plain(const TensorInfo& info) {
  return info.dtype == DType::BF16 || info.dtype == DType::F16 || info.dtype == DType::F32;
}

}  // namespace kvcal
