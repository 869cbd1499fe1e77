#include "capacity/weight_bytes.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "capacity/listed_modules.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostBits = 16;

int64_t integer_at(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const Json* value = find_member(object, key); value && value->is_number_integer()) return value->get<int64_t>();
  return 0;
}

// What scales (and zero points) add: their bits shared by the weights of a group. Groups of whole rows or tensors add
// nothing that counts.
double with_groups(int64_t bits, double bits_per_group, int64_t group_size) {
  if (bits < 1 || bits > kMostBits) fail("the quantization has weights of " + std::to_string(bits) + " bits");
  return static_cast<double>(bits) + (group_size > 0 ? bits_per_group / static_cast<double>(group_size) : 0);
}

// One scheme of compressed-tensors or ModelOpt: {"num_bits": 4, "type": "float", "group_size": 16}.
double bits_of_scheme(const Json& weights) {
  const int64_t bits = integer_at(weights, {"num_bits"}), group = integer_at(weights, {"group_size"});
  const bool narrow_float = get_string_or(weights, "type", "int") != "int" && bits <= 4;
  return with_groups(bits, narrow_float ? 8 : 16,
                     group);  // scales of NVFP4 and MXFP4 have 8 bits, those of integers 16
}

double bits_of_groups(const Json& quantization) {
  double most = 0;
  if (const Json* groups = find_member(quantization, "config_groups"); groups && groups->is_object())
    for (const auto& group : groups->items())
      if (const Json* weights = group.value().is_object() ? find_member(group.value(), "weights") : nullptr)
        if (weights->is_object()) most = std::max(most, bits_of_scheme(*weights));
  return most;
}

double bits_of_algorithm(const std::string& name) {
  constexpr struct {
    const char* name;
    double bits;
  } kKnown[] = {{"NVFP4", 4.5},       {"NVFP4_AWQ", 4.5},  {"W4A8_NVFP4_FP8", 4.5},
                {"W4A16_NVFP4", 4.5}, {"MXFP4", 4.25},     {"W4A8_MXFP4_FP8", 4.25},
                {"W4A16_AWQ", 4.125}, {"W4A8_AWQ", 4.125}, {"MXFP8", 8.25}};
  for (const auto& known : kKnown)
    if (name == known.name) return known.bits;
  // Formats of 8 bits: FP8, FP8_PB_WO, W8A8_SQ_PER_CHANNEL; and a mixture that lists no modules: it holds nothing
  // larger.
  const bool eight = name.starts_with("FP8") || name.starts_with("W8") || name.starts_with("INT8");
  return eight || name == "MIXED_PRECISION" ? 8 : 0;
}

bool has_safetensors(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ".safetensors") return true;
  return false;
}

uint64_t bytes_in_headers(const fs::path& folder, bool quantized) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  uint64_t bytes = 0;
  for (const std::string& name : checkpoint.names()) {
    const TensorInfo& info = *checkpoint.find(name);
    const bool wide = info.dtype == DType::F32 || info.dtype == DType::F64;
    bytes += !quantized && wide ? static_cast<uint64_t>(info.shape.elements()) * 2 : info.bytes;
  }
  return bytes;
}

// 0 when there is no index or it does not say.
uint64_t bytes_in_index(const fs::path& folder) {
  const fs::path path = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return 0;
  const Json index = read_json_file(path, {.max_bytes = size_t{512} << 20, .max_depth = 16});
  const Json* metadata = index.is_object() ? find_member(index, "metadata") : nullptr;
  const Json* total = metadata && metadata->is_object() ? find_member(*metadata, "total_size") : nullptr;
  // Some tools write it as 1.5e10.
  const double bytes = total && total->is_number() ? total->get<double>() : 0;
  return bytes > 0 && bytes < 1e17 ? static_cast<uint64_t>(bytes) : 0;
}

// Projections of attention, which formats for experts alone leave as they are.
int64_t attention_weights(const ModelSpec& spec) {
  int64_t n = 0;
  for (const KvLayout& c : spec.caches)
    n += spec.hidden * (c.n_heads * (c.head_dim_k + c.head_dim_v) + c.n_kv_heads * (c.head_dim_k + c.head_dim_v));
  return n;
}

}  // namespace

int64_t parameters_of(const ModelSpec& spec) {
  const auto in = [](int64_t n, const LayerSpec& layer) { return n + layer.parameters; };
  const int64_t in_layers = std::accumulate(spec.layers.begin(), spec.layers.end(), int64_t{0}, in);
  if (in_layers == 0) return 0;
  return in_layers + spec.vocab * spec.hidden * (spec.tied_head ? 1 : 2) + spec.hidden + spec.table_parameters;
}

std::string_view name_of(WeightSource source) {
  switch (source) {
    case WeightSource::Headers:
      return "headers";
    case WeightSource::Index:
      return "index";
    case WeightSource::Config:
      return "config";
    case WeightSource::Given:
      return "given";
  }
  return "";
}

double bits_per_weight(const Json& quantization, std::string_view method) {
  if (!quantization.is_object()) return 16;
  if (method == "fp8" || method == "fbgemm_fp8") return 8;
  if (method == "mxfp4") return 4.25;
  if (const double bits = bits_of_groups(quantization); bits > 0) return bits;
  if (const double bits = bits_of_algorithm(get_string_or(quantization, "quant_algo", "")); bits > 0) return bits;
  if (const int64_t bits = integer_at(quantization, {"bits", "w_bit"}); bits > 0)  // AWQ, GPTQ and their kin
    return with_groups(bits, 16 + static_cast<double>(bits), integer_at(quantization, {"group_size", "q_group_size"}));
  fail("the size of weights in format " + quoted(std::string(method)) + " does not follow from the config");
}

uint64_t bytes_of_parameters(const ModelSpec& spec, double bits, bool experts_only) {
  int64_t in_layers = 0;
  for (const LayerSpec& layer : spec.layers) in_layers += layer.parameters;
  const int64_t wide = parameters_of(spec) - in_layers + (experts_only ? attention_weights(spec) : 0);
  const int64_t narrow = std::max<int64_t>(0, parameters_of(spec) - wide);
  return static_cast<uint64_t>(wide) * 2 + static_cast<uint64_t>(std::llround(static_cast<double>(narrow) * bits / 8));
}

namespace {

// By module, where the config lists them; a format that is not known counts as 16 bits.
void count_by_module(const Json& listed, const ConfigFile& file, const ModelSpec& spec, WeightBytes& w) {
  const auto bits_of = [](const Json& format) {
    const double bits = format.is_object() ? bits_of_algorithm(get_string_or(format, "quant_algo", "")) : 0;
    return bits > 0 ? bits : kMostBits;
  };
  const Json* text = find_member(file.config, "text_config");
  w.by_module = true;
  w.bytes = w.parameters * 2 - bytes_saved(listed, text && text->is_object() ? *text : file.config, spec, bits_of);
}

}  // namespace

WeightBytes measure_weights(const ConfigFile& file, const ModelSpec& spec) {
  const QuantizationSummary summary = describe_quantization(file.config, file.folder);
  WeightBytes w;
  w.parameters = static_cast<uint64_t>(parameters_of(spec));
  w.format = summary.weights_quantized ? summary.method + (summary.detail.empty() ? "" : " (" + summary.detail + ")")
                                       : "16 bits";
  if (has_safetensors(file.folder)) {
    w.source = WeightSource::Headers;
    w.bytes = bytes_in_headers(file.folder, summary.weights_quantized);
  } else if (const uint64_t total = bytes_in_index(file.folder)) {
    w.source = WeightSource::Index;
    w.bytes = total;
  } else if (w.parameters == 0) {
    fail(
        "the size of the weights is not known: there are no weights and no index beside the config, and of a class "
        "that this program does not read it does not follow from the config");
  } else if (const Json listed = quantized_layers(file.config, file.folder); listed.is_object()) {
    count_by_module(listed, file, spec, w);
  } else {
    w.bits = bits_per_weight(find_quantization(file.config, file.folder), summary.method);
    w.bytes = bytes_of_parameters(spec, w.bits, summary.method == "mxfp4");
  }
  w.in_eight_bits = summary.weights_quantized;
  return w;
}

}  // namespace kvcal
