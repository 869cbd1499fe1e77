// F: options of the serve command, alone and with the model and the server's version.
#include <algorithm>

#include "base/letter_case.h"
#include "base/word_list.h"
#include "deployment/cache_choices.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

// vLLM's wheels were read: 0.18.1 has no guard for hybrids, 0.19.0 has it; 0.27.0 has the option, 0.28.0 has not.
constexpr EngineVersion kGuard = {0, 19, 0}, kCalculateGone = {0, 28, 0}, kPathGone = {0, 7, 0};

bool calculates(const Facts& f) { return f.flag("calculate-kv-scales") != nullptr && !f.is(Engine::Sglang); }

std::string version_text(const Facts& f) { return f.version ? "vLLM " + str(*f.version) : ""; }

Found calculate_on_hybrid(const Facts& f) {
  if (!calculates(f) || f.model.hybrid != Trait::Yes || f.before(kGuard) == Trait::No || f.seen("LG5")) return {};
  const std::string by_name =
      f.model.from_config ? "" : "hybrid judging by the model's name; confirm with --model MODEL";
  return {true, version_text(f) + (by_name.empty() || !f.version ? "" : "; ") + by_name};
}

Found calculate_on_others(const Facts& f) {
  const bool here = calculates(f) && f.model.hybrid != Trait::Yes && f.before(kCalculateGone) != Trait::No;
  return {here && !f.seen("LG5"), f.model.hybrid == Trait::Unknown ? "give --model MODEL: hybrid models suffer more"
                                  : f.model.multimodal == Trait::Yes
                                      ? "images have other ranges than the text that came first"
                                      : ""};
}

}  // namespace

bool reads_parameter_path(const Facts& f) {
  return f.flag("quantization-param-path") != nullptr && f.flag_value("kv-cache-dtype") == "fp8_e4m3";
}

namespace {

bool asks_for_e5m2(const Facts& f) { return f.flag_value("kv-cache-dtype") == "fp8_e5m2"; }

/// Of an installed server by its own list. A variable of a shell may be any type.
bool lacks_type(const Facts& f, const std::string& type) {
  if (type.find('$') != type.npos) return false;
  const Trait listed = f.installed ? is_listed(f.installed->cache_types, type) : Trait::Unknown;
  if (listed == Trait::Yes) return refuses_choice(f.server, f.version, type);
  return listed == Trait::No || has_cache_type(f.server, f.version, type) == Trait::No;
}

Found unknown_type(const Facts& f) {
  const std::string type = f.flag_value("kv-cache-dtype");
  // vLLM's models/config.py makes auto of it for this class before a backend is asked.
  const bool replaced = type == "bfloat16" && f.model.architecture == "DeepseekV32ForCausalLM";
  if (type.empty() || has_platform_of_its_own(f) || replaced || !lacks_type(f, type)) return {};
  return {true, std::string(name_of(f.server)) + (f.version ? " " + str(*f.version) : "'s newest version") + ": no '" +
                    type + "'"};
}

Found backend_of_other_server(const Facts& f) {
  const std::string name = named_backend(f.flag_value("attention-backend"));
  const std::optional<std::string_view> here = backend_of_another(f.server, name);
  const Trait listed = !f.installed || name == "auto"
                           ? Trait::Unknown
                           : is_listed(f.installed->backends, f.is(Engine::Vllm) ? upper_case(name) : name);
  if (name.empty() || has_platform_of_its_own(f) || listed == Trait::Yes || (!here && listed == Trait::Unknown))
    return {};
  const std::string own = !here || here->empty() ? "no such backend" : std::string(*here);
  return {true, std::string(name_of(f.server)) + " has " + own};
}

// One type's bits are read as the other's.
Found other_half(const Facts& f) {
  const std::string asked = f.flag_value("kv-cache-dtype"), computed = f.flag_value("dtype");
  const bool differs = (asked == "float16" && f.model.weights_type == "bfloat16") ||
                       (asked == "bfloat16" && f.model.weights_type == "float16");
  return {differs && (computed.empty() || computed == "auto"), "the model is " + f.model.weights_type};
}

std::string option_of(const ServeCommand& command, const char* name, const char* otherwise) {
  const auto found = command.flags.find(name);
  return found == command.flags.end() || found->second.empty() ? otherwise : found->second;
}

// "prefill" or "decode" of a pair of servers; "" for one that does both.
std::string role_of(const ServeCommand& command) {
  const std::string transfer = option_of(command, "kv-transfer-config", "");
  const std::string mode = option_of(command, "disaggregation-mode", "");
  if (mode == "prefill" || transfer.find("kv_producer") != std::string::npos) return "prefill";
  return mode == "decode" || transfer.find("kv_consumer") != std::string::npos ? "decode" : "";
}

// What two servers of a pair must agree on so that one can read the other's cache.
Found pair_differs(const Facts& f) {
  for (const auto& [prefill, from] : f.commands)
    for (const auto& [decode, also_from] : f.commands) {
      if (role_of(prefill) != "prefill" || role_of(decode) != "decode" || prefill.server != decode.server) continue;
      for (const auto& [name, otherwise] :
           {std::pair{"kv-cache-dtype", "auto"}, std::pair{"quantization-param-path", "none"}}) {
        const std::string one = option_of(prefill, name, otherwise), other = option_of(decode, name, otherwise);
        if (one != other) return {true, std::string("--") + name + ": " + one + " and " + other, {from, also_from}};
      }
    }
  return {};
}

bool llama_needs_flash(const Facts& f) {
  std::string type = f.flag_value("cache-type-v");
  if (type.empty()) type = f.flag_value("ctv");
  const std::string flash = f.flag("flash-attn") != nullptr ? f.flag_value("flash-attn") : f.flag_value("fa");
  return !type.empty() && !has_word("f16 f32 bf16", type) && has_word("off 0", flash);
}

constexpr CombinationRule kRules[] = {
    {{"F01", Fatal, Established, "--calculate-kv-scales no longer exists: the server does not start", "",
      "remove it: {command}; then calibrate and export", "vllm 0.28.0 has no such option; change 49389",
      Cause::OptionUnknown, 9},
     kFlags,
     [](const Facts& f) -> Found {
       return {calculates(f) && f.before(kCalculateGone) == Trait::No, version_text(f)};
     },
     "calculate-kv-scales"},
    {{"F02", Warning, Established, "--calculate-kv-scales is ignored for a hybrid model: its KV scales are 1.0",
      "damage: 1.0 is right wherever magnitudes stay below 448", "remove it: {command}",
      "vllm 0.19.1 to 0.27.0 model_executor/models/config.py", Cause::RuntimeScalesIgnored, 7},
     kFlags | kModel,
     [](const Facts& f) -> Found {
       const bool guarded = f.before(kGuard) == Trait::No && f.before(kCalculateGone) == Trait::Yes;
       return {calculates(f) && f.model.hybrid == Trait::Yes && guarded && !f.seen("LG5"), version_text(f)};
     },
     "calculate-kv-scales"},
    {{"F03", Error, Established,
      "scales are measured while the recurrent layers' state is uninitialized, then frozen: garbage from the first "
      "request on",
      "that FP8 as such hurts this model: without the option its scales are 1.0, which served Qwen3.5 well",
      "remove it: {command}", "vllm issue 37554, change 37565; vllm 0.17.1 has no guard", Cause::RuntimeScalesOfHybrid,
      8},
     kFlags | kModel,
     calculate_on_hybrid,
     "calculate-kv-scales kv-cache-dtype"},
    {{"F04", Error, Established,
      "scales are frozen from the first forward pass (a warm-up or the first request): later keys beyond 2.24 times "
      "and values beyond 4.48 times what it saw are clipped, differently after every restart",
      "that clipping happened, or that it made NaN: clipped values are finite",
      "remove it: {command}; calibrate before serving", "vllm changes 11906, 37201", Cause::RuntimeScalesFrozen, 8},
     kFlags,
     calculate_on_others,
     "calculate-kv-scales kv-cache-dtype"},
    {{"F05", Fatal, Established, "no released vLLM or SGLang has the option --kv-cache-scales-path", "",
      "remove it: {command}; {export to vllm}", "absent in vllm 0.6.6 to 0.33.0, sglang 0.5.23", Cause::OptionUnknown,
      4},
     kFlags,
     [](const Facts& f) { return f.flag("kv-cache-scales-path") != nullptr && !f.seen("F05"); },
     "kv-cache-scales-path"},
    {{"F06", Fatal, Established, "--quantization-param-path was removed from vLLM in 0.7", "",
      "remove it: {command}; {export to vllm}", "vllm change 11906", Cause::OptionUnknown, 8},
     kFlags | kKnownServer,
     [](const Facts& f) {
       const bool gone = f.is(Engine::Vllm) && f.before(kPathGone) != Trait::Yes;
       return f.flag("quantization-param-path") != nullptr && gone;
     },
     "quantization-param-path"},
    {{"F07", Warning, Established, "--quantization-param-path works for some model classes and attention backends only",
      "that it fails here: LG52 and LG53 in the log say whether the file was read",
      "prefer scales in the checkpoint: {export to sglang}", "sglang issues 18818, 20705; sglang 0.5.23",
      Cause::ScalesNotLoaded, 3},
     kFlags | kSglang,
     reads_parameter_path,
     "quantization-param-path"},
    {{"F07b", Error, Established,
      "--quantization-param-path is read with --kv-cache-dtype fp8_e4m3 only: scales stay 1.0", "",
      "--kv-cache-dtype fp8_e4m3", "sglang 0.5.23 load_model_utils.py", Cause::ScalesNotLoaded, 8},
     kFlags | kSglang,
     [](const Facts& f) { return f.flag("quantization-param-path") != nullptr && !reads_parameter_path(f); },
     "quantization-param-path kv-cache-dtype"},
    {{"F09", Fatal, Established,
      "fp8_e5m2 cannot be combined with a checkpoint whose quantization may carry FP8 KV scales", "",
      "--kv-cache-dtype fp8_e4m3", "vllm 0.33.0 model_executor/layers/attention/attention.py", Cause::ScalesRefused, 9,
      "LG10"},
     kFlags | kCheckpoint | kVllm,
     [](const Facts& f) -> Found {
       const CheckpointFacts& c = *f.checkpoint;
       return {asks_for_e5m2(f) && (c.declaration.declares_cache() || has_word("fp8 quark", c.declaration.method)),
               "checkpoint: " + c.declaration.method};
     },
     "kv-cache-dtype"},
    {{"F09b", Fatal, Established,
      "this version takes no E5M2 cache with a compressed-tensors checkpoint, whether or not it carries KV scales", "",
      "vLLM 0.24 or later", "vllm 0.8.5 to 0.23.0 attention.py, absent in 0.24.0; vllm issue 39137",
      Cause::FormatUnsupported, 9, "LG10"},
     kFlags | kCheckpoint | kVllm,
     // vLLM 0.23.0 refuses E5M2 with every method that may load KV scales, 0.24.0 where a scheme is declared.
     [](const Facts& f) -> Found {
       const CheckpointFacts& c = *f.checkpoint;
       return {asks_for_e5m2(f) && c.declaration.method == "compressed-tensors" && !c.declaration.declares_cache(),
               version_text(f)};
     },
     "kv-cache-dtype",
     "",
     {.until = {0, 24, 0}}},
    {{"F10", Error, Reported, "E5M2 keys were reported to corrupt Qwen2-VL and Qwen2.5-VL", "the cause: none was found",
      "{control}, or fp8_e4m3 with calibrated scales", "vllm issue 41343", Cause::KeyOutliers, 6},
     kFlags | kModel,
     [](const Facts& f) {
       return asks_for_e5m2(f) && f.model.key_bias == Trait::Yes && f.model.multimodal == Trait::Yes;
     },
     "kv-cache-dtype"},
    {{"F27", Fatal, Established, "the server does not serve a cache type of this name",
      "that no other version, and no platform's plug-in, has it", "{type}",
      "vllm 0.8.5 to 0.33.0 config/cache.py, sglang 0.5.8 to 0.5.23 server_args.py", Cause::FormatUnsupported, 7},
     kFlags | kKnownServer,
     unknown_type,
     "kv-cache-dtype"},
    {{"F37", Fatal, Established,
      "this server has no attention backend of that name, which another server may have: it does not start",
      "that no plug-in adds it", "{backend}",
      "vllm 0.12.0 to 0.33.0 v1/attention/backends/registry.py, sglang 0.5.8 to 0.5.23 ATTENTION_BACKEND_CHOICES",
      Cause::OptionUnknown, 9, "B33"},
     kFlags | kKnownServer,
     backend_of_other_server,
     "attention-backend"},
    {{"F38", Fatal, Established,
      "what writes the cache for this backend takes no 16-bit type that is written out: the first request stops the "
      "server",
      "", "vLLM 0.23 or later, or another --attention-backend",
      "vllm 0.15.0 to 0.22.0 v1/attention/ops/triton_reshape_and_cache_flash.py; vllm change 43330",
      Cause::FormatUnsupported, 8},
     kFlags | kVllm | kAtRequest,
     [](const Facts& f) {
       const std::string type = f.flag_value("kv-cache-dtype");
       return has_word("bfloat16 float16", type) && !lacks_type(f, type);
     },
     "{backend}",
     "TRITON_ATTN",
     {{0, 15, 0}, {0, 23, 0}}},
    {{"F36", Fatal, Established, "sparse attention of MLA models takes FP8 in E4M3 alone: the server does not start",
      "", "--kv-cache-dtype fp8_e4m3, or {control}", "sglang 0.5.8 to 0.5.23, configuration of DeepSeek DSA",
      Cause::FormatUnsupported, 9, "B16"},
     kFlags | kSglang | kLatent | kQuantized,
     [](const Facts& f) {
       const std::string type = cache_request(f).asked;
       const bool other = !type.empty() && type != "fp8_e4m3" && type.find('$') == type.npos;
       return f.model.sparse == Trait::Yes && other && f.before({0, 5, 8}) != Trait::Yes;
     },
     "kv-cache-dtype"},
    {{"F12", Note, Established, "the checkpoint's scales are not used: this cache type makes its own while serving", "",
      "", "vllm 0.33.0 kv_cache.py"},
     kFlags | kTensors,
     [](const Facts& f) { return f.cache.name.ends_with("_per_token_head") && f.checkpoint->n_scales() > 0; },
     "kv-cache-dtype"},
    {{"F32", Error, Reported,
      "the cache is asked for in another 16-bit type than the model computes in: fluent nonsense was reported",
      "that this version does it: reported for 0.28.0, not checked in others", "--kv-cache-dtype auto",
      "vllm issue 54338", Cause::FormatUnsupported, 8, "W02"},
     kFlags | kCheckpoint | kVllm,
     other_half,
     "kv-cache-dtype"},
    {{"F14", Note, Inferred, "--enforce-eager makes decoding slower and changes no numbers", "",
      "remove it in production", ""},
     kFlags,
     [](const Facts& f) { return f.flag("enforce-eager") != nullptr; },
     "enforce-eager"},
    {{"F19", Fatal, Established, "prefill and decode servers store the cache differently", "",
      "give both the same --kv-cache-dtype, and the same scales",
      "sglang 0.5.23 srt/disaggregation/common/conn.py; LMCache issue 2495", Cause::CacheTransfer, 9},
     kFlags | kServing,
     pair_differs},
    {{"F35", Warning, Reported,
      "a hybrid whose quantized cache another server reads: wrong answers were reported where a cache in 16 bits was "
      "right",
      "that this version does it: reported in May 2026 for Qwen3.5-397B-NVFP4 over NIXL",
      "{control} on both sides, or one server for prefill and decode, and compare", "vllm issue 42179",
      Cause::CacheTransfer, 4},
     kFlags | kVllm | kHybrid | kQuantized,
     // Connectors that hand blocks to another server; others keep them in a store of this one.
     [](const Facts& f) {
       const std::string config = f.flag_value("kv-transfer-config");
       return config.find("Nixl") != config.npos || config.find("MooncakeConnector") != config.npos ||
              config.find("P2pNccl") != config.npos;
     },
     "kv-transfer-config kv-cache-dtype"},
    {{"F20", Warning, Inferred, "the adapter changes what the cache stores; the scales were measured without it",
      "that it exceeds them: a headroom of 2 is usual", "kvcal calibrate on the model with the adapter merged into it",
      "", Cause::ScalesStale, 3},
     kAdapter,
     [](const Facts& f) -> Found {
       const std::string& targets = f.adapter->cache_targets;
       return {!targets.empty() && has_calibrated_scales(f) && cache_is_quantized(f) != Trait::No, targets};
     },
     "{adapter}"},
    {{"F21", Warning, Reported,
      "adapters share cached blocks outside the server: the block key does not include the adapter",
      "that two adapters did share a block", "send a cache_salt for each adapter, or serve without the connector",
      "vllm issue 44250; vllm 0.33.0 kv_connector/v1/lmcache_mp_connector.py", Cause::CacheTransfer, 5},
     kFlags,
     [](const Facts& f) {
       const bool lora = f.flag("enable-lora") != nullptr || f.flag("lora-modules") != nullptr;
       return lora && f.flag_value("kv-transfer-config").find("LMCacheMP") != std::string::npos;
     },
     "enable-lora lora-modules kv-transfer-config"},
    {{"F24", Error, Established, "LMDeploy's 4-bit cache was measured to break Qwen models: 40 % of answers to none",
      "that this one breaks", "--quant-policy 8", "lmdeploy issues 2822, 3752, 4743", Cause::KeyOutliers, 8},
     kFlags | kModel | kKnownServer,
     [](const Facts& f) {
       const bool qwen = f.model.model_type.starts_with("qwen") || f.model.key_bias == Trait::Yes;
       return f.is(Engine::LmDeploy) && f.flag_value("quant-policy") == "4" && qwen;
     },
     "quant-policy"},
    {{"F22", Fatal, Established, "a quantized V cache needs flash attention", "", "--flash-attn on", "llama.cpp",
      Cause::FormatUnsupported, 8},
     kFlags,
     llama_needs_flash,
     "cache-type-v ctv flash-attn fa"},
    {{"F23", Warning, Established, "keys are quantized without the rotation that spreads their outliers",
      "that this model has outliers", "unset LLAMA_ATTN_ROT_DISABLE; --cache-type-k q8_0", "llama.cpp change 21038",
      Cause::KeyOutliers, 5},
     kFlags | kQuantized,
     [](const Facts& f) -> Found {
       const std::string off = f.variable("LLAMA_ATTN_ROT_DISABLE");
       const bool rotates = off.empty() || off == "0";
       return {!rotates && is_quantized_type(key_type_of_llama(f)), "LLAMA_ATTN_ROT_DISABLE=" + off, {f.command_from}};
     }},
    {{"F26", Note, Established, "layers with a sliding window gain little from a quantized cache", "",
      "--kv-cache-dtype-skip-layers sliding_window", "vllm change 33695"},
     kFlags | kModel | kVllm | kQuantized,
     [](const Facts& f) { return f.model.sliding == Trait::Yes && f.flag("kv-cache-dtype-skip-layers") == nullptr; },
     "kv-cache-dtype"},
};

}  // namespace

std::span<const CombinationRule> flag_rules() { return kRules; }

}  // namespace kvcal
