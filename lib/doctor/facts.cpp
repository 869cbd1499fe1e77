#include "doctor/facts.h"

#include <algorithm>
#include <array>

namespace kvcal {
namespace {

// Of names as people write them, in lower case without separators: "Qwen/Qwen3.5-35B-A3B" -> "qwenqwen3535ba3b".
std::string squeezed(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

struct Family {
  std::string_view part;
  bool hybrid = false, latent = false, multimodal = false, key_bias = false;
  int64_t n_heads = 0;
};

// First match counts: the more special name stands first.
constexpr std::array kFamilies = {
    Family{.part = "qwen35", .hybrid = true},
    Family{.part = "qwen36", .hybrid = true},
    Family{.part = "qwen3next", .hybrid = true},
    Family{.part = "jamba", .hybrid = true},
    Family{.part = "nemotronh", .hybrid = true},
    Family{.part = "nemotron3", .hybrid = true},
    Family{.part = "falconh1", .hybrid = true},
    Family{.part = "granite4", .hybrid = true},
    Family{.part = "granite40", .hybrid = true},
    Family{.part = "bamba", .hybrid = true},
    Family{.part = "zamba2", .hybrid = true},
    Family{.part = "kimilinear", .hybrid = true, .latent = true},
    Family{.part = "kimik2", .latent = true},
    Family{.part = "deepseekv2", .latent = true},
    Family{.part = "deepseekv3", .latent = true},
    Family{.part = "deepseekr1", .latent = true},
    Family{.part = "glm47flash", .latent = true, .n_heads = 20},
    Family{.part = "minicpm3", .latent = true},
    Family{.part = "mistrallarge3", .latent = true},
    Family{.part = "qwen25vl", .multimodal = true, .key_bias = true},
    Family{.part = "qwen2vl", .multimodal = true, .key_bias = true},
    Family{.part = "qwen3vl", .multimodal = true},
    Family{.part = "qwen25", .key_bias = true},
    Family{.part = "qwen2", .key_bias = true},
};

bool is_quantized_dtype(std::string_view dtype) {
  return !dtype.empty() && dtype != "auto" && dtype != "bf16" && dtype != "bfloat16" && dtype != "float16" &&
         dtype != "fp16" && dtype != "f16" && dtype != "f32" && dtype != "torch.bfloat16" && dtype != "torch.float16";
}

// What "auto" becomes by what the checkpoint declares (vLLM 0.33.0, SGLang 0.5.23): an fp8 checkpoint alone is not
// enough.
std::string declared_dtype(const Facts& facts) {
  if (!facts.checkpoint || !facts.checkpoint->has_kv_scheme) return "";
  if (facts.checkpoint->kv_scheme.find("NVFP4") != std::string::npos) return "nvfp4";
  return "fp8";
}

}  // namespace

const Flag* Facts::flag(std::string_view name) const {
  const auto found = flags.find(name);
  return found == flags.end() ? nullptr : &found->second;
}

std::string Facts::flag_value(std::string_view name) const {
  const Flag* found = flag(name);
  return found == nullptr ? "" : found->value;
}

Trait Facts::before(const EngineVersion& limit) const {
  if (!version) return Trait::Unknown;
  return *version < limit ? Trait::Yes : Trait::No;
}

bool knows_flags(const Facts& facts) { return facts.command.has_value() || !facts.flags.empty(); }

std::string cache_dtype(const Facts& facts) {
  for (const char* name : {"kv-cache-dtype", "cache-type-k", "ctk"})
    if (const Flag* flag = facts.flag(name); flag != nullptr && flag->value != "auto" && !flag->value.empty())
      return flag->value;
  if (const std::string bits = facts.flag_value("quant-policy"); bits == "4" || bits == "8") return "int" + bits;
  if (!facts.logged_dtype.empty()) return facts.logged_dtype;
  return declared_dtype(facts);
}

Trait cache_is_quantized(const Facts& facts) {
  const std::string dtype = cache_dtype(facts);
  if (!dtype.empty()) return is_quantized_dtype(dtype) ? Trait::Yes : Trait::No;
  return knows_flags(facts) ? Trait::No : Trait::Unknown;
}

bool cache_is_static_fp8(const Facts& facts) {
  const std::string dtype = cache_dtype(facts);
  return dtype == "fp8" || dtype == "fp8_e4m3" || dtype == "torch.float8_e4m3fn";
}

bool has_calibrated_scales(const Facts& facts) {
  const bool inside = facts.checkpoint && facts.checkpoint->n_scales() > facts.checkpoint->n_unit;
  return inside || (facts.scales && facts.scales->n_unit < facts.scales->n_sites);
}

void take_model_name(const std::string& name, ModelTraits& model) {
  if (model.from_config) return;
  const std::string letters = squeezed(name);
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(),
                                   [&](const Family& f) { return letters.find(f.part) != std::string::npos; });
  if (family == kFamilies.end()) return;
  model.hybrid = family->hybrid ? Trait::Yes : Trait::No;
  model.latent = family->latent ? Trait::Yes : Trait::No;
  model.multimodal = family->multimodal ? Trait::Yes : Trait::Unknown;
  model.key_bias = family->key_bias ? Trait::Yes : Trait::No;
  model.n_heads = family->n_heads;
}

}  // namespace kvcal
