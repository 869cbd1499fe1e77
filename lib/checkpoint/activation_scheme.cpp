#include "checkpoint/activation_scheme.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/formats/scale_grid.h"
#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

[[noreturn]] void fail_nothing(const std::string& why) {
  fail("no activation rounding to emulate: " + why + ", so servers do not round activations");
}

[[noreturn]] void fail_unknown_rounding(const std::string& format) {
  fail(
      "the rounding of activations by " + quoted(format) +
      " cannot be emulated, only FP8 (per token, per group, per tensor); calibrate without --emulate-activation-quant");
}

std::string word_at(const Json& object, const char* key) {
  const Json* value = find_member(object, key);
  return value && value->is_string() ? value->get<std::string>() : "";
}

ActivationScheme by_token() { return {"fp8_token", InputRounding::by_token()}; }
ActivationScheme by_tensor() { return {"fp8_tensor", {}}; }

ActivationScheme by_group(int64_t columns, bool power_of_two = false) {
  constexpr int64_t kMostColumns = 1 << 20;
  if (columns < 1 || columns > kMostColumns)
    fail("activations are rounded in groups of " + std::to_string(columns) + ", expected 1 to " +
         std::to_string(kMostColumns));
  return {"fp8_group_" + std::to_string(columns) + (power_of_two ? "_pow2" : ""),
          InputRounding::by_group(columns, power_of_two)};
}

/// quant_method fp8. With blocks groups as long as a block; else by token where it is dynamic, as vLLM does it on
/// processors with FP8.
ActivationScheme of_fp8(const Json& q) {
  const std::string activations = word_at(q, "activation_scheme");
  if (!activations.empty() && activations != "dynamic" && activations != "static")
    fail_unknown_rounding("fp8, activation_scheme " + activations);
  if (const Json* block = find_member(q, "weight_block_size"); block && block->is_array() && block->size() == 2) {
    if (activations == "static") fail_unknown_rounding("fp8, blocks with a static activation_scheme");
    return by_group((*block)[1].is_number_integer() ? (*block)[1].get<int64_t>() : 0,
                    word_at(q, "scale_fmt") == "ue8m0");
  }
  return activations == "static" ? by_tensor() : by_token();
}

/// By token, where what is beyond activation_scale_ub does not count.
ActivationScheme of_fbgemm(const Json& q) {
  ActivationScheme scheme = by_token();
  const auto most = static_cast<float>(get_number_or(q, "activation_scale_ub", 0));
  if (most > 0) scheme.rounding.most_absmax = most;
  return scheme;
}

/// input_activations of a group of compressed-tensors.
ActivationScheme of_compressed_activations(const Json& a) {
  const std::string type = word_at(a, "type"), strategy = word_at(a, "strategy");
  const int64_t bits = get_int_or(a, "num_bits", 8);
  const Json* dynamic = find_member(a, "dynamic");
  if (type != "float" || bits != 8)
    fail_unknown_rounding("compressed-tensors, activations of type " + (type.empty() ? "int" : type) + " with " +
                          std::to_string(bits) + " bits");
  const bool each = dynamic && *dynamic == true;
  if (strategy == "group" && each) return by_group(get_int_or(a, "group_size", 0));
  if (strategy != "token" && strategy != "tensor")
    fail_unknown_rounding("compressed-tensors, strategy " + strategy + (each ? ", dynamic" : ", static"));
  return each ? by_token() : by_tensor();  // vLLM takes every token alone where the scale is dynamic
}

ActivationScheme of_compressed_tensors(const Json& q) {
  std::vector<ActivationScheme> schemes;
  bool without = false;
  if (const Json* groups = find_member(q, "config_groups"); groups && groups->is_object())
    for (const auto& group : groups->items()) {
      if (!group.value().is_object() || !find_member(group.value(), "weights")) continue;
      const Json* a = find_member(group.value(), "input_activations");
      if (a && a->is_object())
        schemes.push_back(of_compressed_activations(*a));
      else
        without = true;
    }
  if (schemes.empty()) fail_nothing("compressed-tensors with quantized weights only");
  for (const ActivationScheme& s : schemes)
    if (without || s.name != schemes[0].name) fail_unknown_rounding("compressed-tensors with groups that differ in it");
  return schemes[0];
}

/// quant_algo, or the only one of a model with several.
std::string algorithm_of(const Json& q) {
  std::string algorithm = word_at(q, "quant_algo");
  const Json* layers = find_member(q, "quantized_layers");
  if (algorithm != "MIXED_PRECISION" || !layers || !layers->is_object()) return algorithm;
  std::set<std::string> all;
  for (const auto& layer : layers->items())
    if (layer.value().is_object()) all.insert(word_at(layer.value(), "quant_algo"));
  return all.size() == 1 ? *all.begin() : algorithm;
}

ActivationScheme of_modelopt(const Json& q) {
  constexpr int64_t kBlock = 128;
  const std::string algorithm = algorithm_of(q);
  if (algorithm == "FP8") return by_tensor();
  if (algorithm == "FP8_PER_CHANNEL_PER_TOKEN") return by_token();
  if (algorithm == "FP8_PB_WO") return by_group(kBlock);  // weights alone by its name, but vLLM rounds groups of 128
  if (algorithm.find("A16") != std::string::npos) fail_nothing("modelopt " + algorithm + " quantizes only weights");
  fail_unknown_rounding("modelopt" + (algorithm.empty() ? "" : " " + algorithm));
}

}  // namespace

ActivationScheme read_activation_scheme(const Checkpoint& checkpoint) {
  return while_doing("reading " + quoted(checkpoint.folder().string()), [&]() -> ActivationScheme {
    const QuantizationSummary summary = describe_quantization(checkpoint.config(), checkpoint.folder());
    if (!summary.weights_quantized) fail_nothing("the weights are not quantized");
    const Json q = find_quantization(checkpoint.config(), checkpoint.folder());
    const std::string& method = summary.method;
    if (method == "fp8") return of_fp8(q);
    if (method == "fbgemm_fp8") return of_fbgemm(q);
    if (method == "compressed-tensors") return of_compressed_tensors(q);
    if (method == "modelopt") return of_modelopt(q);
    if (method.find("auto-round") != std::string::npos && get_int_or(q, "act_bits", 16) >= 16)
      fail_nothing(method + " quantizes only weights");
    if (method == "awq" || method == "gptq" || method == "mxfp4") fail_nothing(method + " quantizes only weights");
    fail_unknown_rounding(method);
  });
}

std::string input_scale_name(const Checkpoint& checkpoint, std::string_view weight) {
  constexpr std::string_view kWeight = ".weight";
  const bool named = weight.ends_with(kWeight);
  const std::string module(named ? weight.substr(0, weight.size() - kWeight.size()) : weight);
  for (const char* suffix : {"input_scale", "activation_scale"})
    for (const char* joint : {".", "_"})  // the latter beside all experts in one tensor
      if (const std::string name = module + joint + suffix; checkpoint.has(name)) return name;
  return "";
}

InputRounding input_rounding(const Checkpoint& checkpoint, const ActivationScheme& scheme, const std::string& weight) {
  const TensorInfo* stored = checkpoint.find(weight);
  if (stored && is_plain(*stored)) return {};
  if (!stored || (stored->dtype != DType::F8E4M3 && stored->dtype != DType::F8E5M2))
    fail("weight " + quoted(weight) + " is quantized, but not in FP8, as config.json says for " + scheme.name +
         ": the rounding of its inputs is not known");
  if (scheme.rounding) return scheme.rounding;
  const std::string name = input_scale_name(checkpoint, weight);
  if (name.empty())
    fail("weight " + quoted(weight) + " has inputs with a static scale, but neither input_scale nor activation_scale " +
         "is beside it; is the checkpoint complete?");
  const std::vector<float> scales = read_scales(checkpoint, name);  // of experts one each: servers take the largest
  InputRounding rounding;
  for (const float scale : scales) rounding.scale = std::max(rounding.scale, scale);
  if (!(rounding.scale > 0)) fail("scale " + quoted(name) + " is not above 0; is the checkpoint damaged?");
  return rounding;
}

}  // namespace kvcal
