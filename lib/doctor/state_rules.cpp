// RS: the state of recurrent layers: types and options of it, by server, version, kind of layer and GPU.
#include <algorithm>
#include <array>

#include "base/word_list.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

/// Options of recurrent state, and versions that have them. vLLM 0.10.0 to 0.33.0 engine/arg_utils.py, SGLang 0.5.1 to
/// 0.5.23 server_args.py and arg_groups/fields/exec_.py.
struct StateOption {
  std::string_view name;
  EngineVersion vllm, sglang;  // first version; zero: it has no such option
};
constexpr EngineVersion kNever = {};
constexpr std::array kOptions = {
    StateOption{"mamba-cache-dtype", {0, 10, 1}, kNever},
    StateOption{"mamba-ssm-cache-dtype", {0, 10, 1}, kNever},
    StateOption{"mamba-block-size", {0, 11, 1}, kNever},
    StateOption{"mamba-cache-mode", {0, 15, 0}, kNever},
    StateOption{"use-replayssm", {0, 27, 0}, kNever},
    StateOption{"mamba-backend", {0, 20, 0}, {0, 5, 9}},
    StateOption{"enable-mamba-cache-stochastic-rounding", {0, 20, 0}, {0, 5, 15}},
    StateOption{"mamba-ssm-dtype", kNever, {0, 5, 2}},
    StateOption{"linear-attn-backend", kNever, {0, 5, 10}},
    StateOption{"linear-attn-decode-backend", kNever, {0, 5, 10}},
    StateOption{"linear-attn-prefill-backend", kNever, {0, 5, 10}},
    StateOption{"linear-attn-verify-backend", kNever, {0, 5, 17}},
    StateOption{"enable-int8-mamba-checkpoint", kNever, {0, 5, 14}},
    StateOption{"int8-mamba-ckpt-size", kNever, {0, 5, 14}},
    StateOption{"mamba-radix-cache-strategy", kNever, {0, 5, 14}},
};

constexpr std::array<std::string_view, 3> kTypeOptions = {"mamba-ssm-cache-dtype", "mamba-cache-dtype",
                                                          "mamba-ssm-dtype"};

std::string server_text(const Facts& f) {
  return std::string(name_of(f.server)) + (f.version ? " " + str(*f.version) : "'s newest version");
}

bool knows_options(const Facts& f) { return f.is(Engine::Vllm) || f.is(Engine::Sglang); }

bool has_option(const Facts& f, const StateOption& option) {
  const EngineVersion& since = f.is(Engine::Vllm) ? option.vllm : option.sglang;
  return since != kNever && f.before(since) != Trait::Yes;
}

const StateOption& option_named(std::string_view name) {
  return *std::ranges::find(kOptions, name, &StateOption::name);
}

/// An option that this version does not have is RS2's alone.
bool is_given(const Facts& f, std::string_view name) {
  const Flag* flag = f.flag(name);
  return flag != nullptr && (flag->printed || has_option(f, option_named(name)));
}

Found unknown_option(const Facts& f) {
  if (!knows_options(f)) return {};
  for (const StateOption& option : kOptions)
    if (f.flag(option.name) != nullptr && !is_given(f, option.name))
      return found_in_flags(f, {option.name}, "--" + std::string(option.name) + "; " + server_text(f));
  return {};
}

Found unknown_type(const Facts& f) {
  for (const std::string_view name : kTypeOptions) {
    const std::string type = f.flag_value(name);
    if (type.empty() || !knows_options(f) || !has_option(f, option_named(name))) continue;
    if (takes_state_type(f.server, f.version, type) == Trait::No)
      return found_in_flags(f, {name},
                            "'" + type + "'; " + server_text(f) + " has " + state_types(f.server, f.version));
  }
  return {};
}

bool may_be_default(const Facts& f, std::string_view name) {
  const Flag* flag = f.flag(name);
  return flag != nullptr && flag->printed && f.is(Engine::Sglang);
}

Found no_state(const Facts& f) {
  if (f.model.hybrid != Trait::No) return {};
  for (const std::string_view name : kTypeOptions)
    if (f.flag(name) != nullptr && !may_be_default(f, name)) return found_in_flags(f, {name});
  return {};
}

bool rounds_at_random(const Facts& f) { return is_given(f, "enable-mamba-cache-stochastic-rounding"); }

Found random_rounding_of_others(const Facts& f) {
  const std::string_view option = f.is(Engine::Vllm) ? "mamba-ssm-cache-dtype" : "mamba-ssm-dtype";
  if (!rounds_at_random(f) || f.flag_value(option) == "float16") return {};
  return found_in_flags(f, {"enable-mamba-cache-stochastic-rounding", option}, "--" + std::string(option) + " float16");
}

// Both ask for the instruction of data-center Blackwell, and for none with FlashInfer.
Found random_rounding_on_gpu(const Facts& f) {
  const bool blackwell = f.gpu->capability / 10 == 10;
  const bool has_one = !f.gpu->rocm && (blackwell || f.flag_value("mamba-backend") == "flashinfer");
  const bool known = f.gpu->rocm || f.gpu->capability != 0;
  return {rounds_at_random(f) && knows_options(f) && !has_one && known, f.gpu->name};
}

std::string backend_of(const Facts& f, std::string_view option) {
  for (const std::string_view name : {option, std::string_view("linear-attn-backend")})
    if (is_given(f, name)) return f.flag_value(name);
  return "";
}

Found compressed_checkpoints_elsewhere(const Facts& f) {
  if (!is_given(f, "enable-int8-mamba-checkpoint")) return {};
  for (const std::string_view other : {"enable-hierarchical-cache", "radix-cache-backend", "enable-lmcache"})
    if (f.flag(other) != nullptr)
      return found_in_flags(f, {"enable-int8-mamba-checkpoint", other}, "--" + std::string(other));
  return {};
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

// The strategy that copies states aside is the default since 0.5.14, where its option got this name.
bool mixed_chunks(const Facts& f) {
  std::string strategy = f.flag_value("mamba-radix-cache-strategy");
  if (strategy.empty()) strategy = f.flag_value("mamba-scheduler-strategy");
  const bool by_default = (strategy.empty() || strategy == "auto") && f.before({0, 5, 14}) != Trait::Yes;
  const bool copies = (by_default || strategy.starts_with("extra_buffer")) && f.flag("disable-radix-cache") == nullptr;
  return copies && f.flag("enable-mixed-chunk") != nullptr && f.flag("speculative-algorithm") == nullptr;
}

// ReplaySSM stores Mamba-2's state every 16th token.
Found rounded_state(const Facts& f) {
  const std::optional<LayerKind>& kind = f.model.state.kind;
  const bool seldom = is_given(f, "use-replayssm") && (!kind || kind == LayerKind::Mamba2);
  return {has_word("bfloat16 float16", f.state.name) && !seldom && kind != LayerKind::ShortConv,
          f.state.name + ", by " + std::string(f.state.decided_by)};
}

constexpr CombinationRule kRules[] = {
    {{"RS1", Fatal, Established, "the server has no recurrent state of this type: it does not start", "",
      "one that it has, or without the option; kvcal evaluate --state-dtype says what a type does to answers",
      "vllm 0.10.1 to 0.33.0 config/cache.py MambaDType, sglang 0.5.2 to 0.5.23 server_args.py; 8 bits are proposed in "
      "vllm issue 55196, changes 40012, 52196, 52962, and sglang issue 40706",
      Cause::FormatUnsupported, 8},
     kFlags | kKnownServer,
     unknown_type},
    {{"RS2", Fatal, Established, "this version of the server has no such option: it does not start", "",
      "remove it, or take the server and version that have it: see docs/states.md",
      "vllm 0.10.0 to 0.33.0 engine/arg_utils.py, sglang 0.5.1 to 0.5.23 server_args.py", Cause::OptionUnknown, 8},
     kFlags | kKnownServer,
     unknown_option},
    {{"RS3", Warning, Established,
      "the option does not reach this model's state: lightning attention and short convolutions go by "
      "--mamba-cache-dtype (vLLM) or SGLANG_MAMBA_CONV_DTYPE, some delta rules by channel by nothing",
      "", "remove it; see docs/states.md for what decides",
      "vllm 0.33.0 mamba_utils.py linear_attention_state_dtype, bailing_moe_v3.py; sglang 0.5.23 configs/lfm2.py"},
     kFlags | kHybrid | kKnownServer,
     [](const Facts& f) -> Found {
       if (f.state.ignored.empty() || may_be_default(f, f.state.ignored)) return {};
       return found_in_flags(f, {f.state.ignored}, f.model.architecture);
     }},
    {{"RS4", Note, Established, "the model has no recurrent layers: the option has no effect", "", "remove it", ""},
     kFlags | kModel,
     no_state},
    {{"RS5", Fatal, Established, "stochastic rounding needs the state in float16, by option: the server does not start",
      "", "add the option, or remove --enable-mamba-cache-stochastic-rounding",
      "vllm 0.20.0 to 0.33.0 config/vllm.py, sglang 0.5.15 to 0.5.23 server_args.py, arg_groups/mamba_hook.py",
      Cause::FormatUnsupported, 8},
     kFlags | kAllFlags | kKnownServer,
     random_rounding_of_others},
    {{"RS6", Fatal, Established,
      "stochastic rounding has no instruction on this GPU: only data-center Blackwell (10.x) has it, others need "
      "--mamba-backend flashinfer, and AMD has none",
      "", "--mamba-backend flashinfer on NVIDIA, or remove --enable-mamba-cache-stochastic-rounding",
      "vllm 0.33.0 config/mamba.py, sglang 0.5.23 arg_groups/mamba_hook.py", Cause::FormatUnsupported, 8},
     kFlags | kAllFlags | kGpu | kKnownServer,
     random_rounding_on_gpu,
     "enable-mamba-cache-stochastic-rounding mamba-backend"},
    {{"RS7", Warning, Established,
      "stochastic rounding is not done for this kind of layer: its state is rounded to nearest", "",
      "--enable-mamba-cache-stochastic-rounding is for Mamba models; keep the state in float32 or evaluate float16",
      "vllm 0.33.0 mamba_mixer2.py alone passes it on; sglang 0.5.23 ssu_dispatch.py"},
     kFlags | kHybrid | kKnownServer,
     // Only selective_state_update draws: Mamba-2's in vLLM, both Mambas' in SGLang.
     [](const Facts& f) -> Found {
       const std::optional<LayerKind>& kind = f.model.state.kind;
       const bool draws = kind == LayerKind::Mamba2 || (f.is(Engine::Sglang) && kind == LayerKind::Mamba);
       return {rounds_at_random(f) && kind && !draws, kind ? std::string(name_of(*kind)) : ""};
     },
     "enable-mamba-cache-stochastic-rounding"},
    {{"RS8", Fatal, Established,
      "the state of a delta rule by channel is float32 or bfloat16: the server does not start", "",
      "--mamba-ssm-cache-dtype bfloat16, or without it", "vllm 0.30.0 to 0.33.0 mamba_utils.py kda_state_dtype",
      Cause::FormatUnsupported, 8},
     kFlags | kHybrid | kVllm,
     // mamba_utils.py kda_state_dtype of 0.30.0 raises ValueError, that of 0.29.0 takes no type.
     [](const Facts& f) {
       return f.model.state.kind == LayerKind::KimiDeltaAttention && f.before({0, 30, 0}) != Trait::Yes &&
              f.state.ignored.empty() && f.flag_value("mamba-ssm-cache-dtype") == "float16";
     },
     "mamba-ssm-cache-dtype"},
    {{"RS9", Error, Reported,
      "Mamba-1's kernel takes a state in float32 or in the model's own type: with another one the engine stops at the "
      "first request",
      "that this version does it: reported in August 2026; 0.33.0 does not refuse it either",
      "--mamba-ssm-cache-dtype float32", "vllm issue 53239, change 54123 (open)", Cause::FormatUnsupported, 8},
     kFlags | kHybrid | kVllm,
     [](const Facts& f) -> Found {
       const std::string computed = computed_type(state_request(f)), &name = f.state.name;
       return {f.model.state.kind == LayerKind::Mamba && !name.empty() && name != "float32" && name != computed &&
                   !computed.empty(),
               "the state in " + name + ", the model in " + computed};
     },
     "mamba-ssm-cache-dtype mamba-cache-dtype dtype"},
    {{"RS10", Error, Reported,
      "SGLang keeps the windows of convolutions in bfloat16 whatever the model computes in: in float16 it was reported "
      "to stop, in a kernel that wants both alike",
      "that this version does it: reported for March to June 2026",
      "SGLANG_MAMBA_CONV_DTYPE=float16, or --dtype bfloat16",
      "sglang changes 19785, 20217, 27792, issue 19406; sglang 0.5.23 environ.py has the same default",
      Cause::FormatUnsupported, 7},
     kFlags | kHybrid | kSglang,
     [](const Facts& f) -> Found {
       return {computed_type(state_request(f)) == "float16" && f.state.conv == "bfloat16" &&
                   f.model.state.kind != LayerKind::Mamba,
               "the model in float16, the windows in bfloat16"};
     },
     "dtype"},
    {{"RS11", Fatal, Established,
      "FlashInfer decodes linear attention on Blackwell from a bfloat16 state alone, by option: the server does not "
      "start",
      "",
      "--linear-attn-decode-backend triton (and --linear-attn-verify-backend triton), or --mamba-ssm-dtype bfloat16 on "
      "data-center Blackwell",
      "sglang 0.5.10 to 0.5.23 server_args.py, arg_groups/attention_hook.py handle_linear_attn_backend",
      Cause::FormatUnsupported, 8},
     kFlags | kAllFlags | kGpu | kSglang,
     // SGLang looks at the option alone, not at config.json.
     [](const Facts& f) -> Found {
       constexpr std::string_view kVerify = "linear-attn-verify-backend";
       const bool decodes = backend_of(f, "linear-attn-decode-backend") == "flashinfer";
       const bool verifies = f.flag_value(kVerify) == "flashinfer" && is_given(f, kVerify);
       const bool bf16 = f.flag_value("mamba-ssm-dtype") == "bfloat16";
       return {(decodes || verifies) && f.gpu->capability >= 100 && !bf16, f.gpu->name};
     },
     "linear-attn-decode-backend linear-attn-backend linear-attn-verify-backend mamba-ssm-dtype"},
    {{"RS12", Error, Reported,
      "FlashInfer's prefill of linear attention on consumer Blackwell wants a float32 state: the server stops while it "
      "warms up",
      "that this version does it: reported in August 2026", "--linear-attn-prefill-backend triton",
      "sglang issue 36532", Cause::FormatUnsupported, 7},
     kFlags | kGpu | kHybrid | kSglang,
     [](const Facts& f) -> Found {
       const bool flashinfer = backend_of(f, "linear-attn-prefill-backend") == "flashinfer";
       return {flashinfer && f.gpu->capability >= 120 && f.state.name == "bfloat16", f.gpu->name};
     },
     "linear-attn-prefill-backend linear-attn-backend mamba-ssm-dtype"},
    {{"RS13", Error, Reported,
      "on Hopper FlashInfer verifies drafted tokens from a float32 state alone: with bfloat16 the server stops while "
      "it captures graphs",
      "that this version does it: reported in August 2026", "--linear-attn-verify-backend triton (0.5.17 or later)",
      "sglang changes 34592, 36611, 36627", Cause::FormatUnsupported, 7},
     kFlags | kAllFlags | kGpu | kHybrid | kSglang,
     [](const Facts& f) -> Found {
       const bool flashinfer = backend_of(f, "linear-attn-decode-backend") == "flashinfer" ||
                               backend_of(f, "linear-attn-prefill-backend") == "flashinfer";
       return {f.flag("speculative-algorithm") != nullptr && flashinfer && f.state.name == "bfloat16" &&
                   f.gpu->capability == 90 && f.flag_value("linear-attn-verify-backend") != "triton",
               f.gpu->name};
     },
     "speculative-algorithm mamba-ssm-dtype"},
    {{"RS14", Fatal, Established,
      "checkpoints of states in INT8 are for the built-in radix cache: the server does not start", "", "one of both",
      "sglang 0.5.14 to 0.5.23 server_args.py, arg_groups/mamba_hook.py handle_int8_mamba_checkpoint",
      Cause::FormatUnsupported, 8},
     kFlags | kSglang,
     compressed_checkpoints_elsewhere},
    {{"RS15", Fatal, Established,
      "--mamba-block-size, unless it is --max-model-len, needs prefix caching: the server does not start", "",
      "--enable-prefix-caching, or remove it", "vllm 0.11.1 to 0.33.0 config/vllm.py validate_mamba_block_size",
      Cause::FormatUnsupported, 8},
     kFlags | kAllFlags | kHybrid | kVllm,
     // A block as long as the longest sequence is no block.
     [](const Facts& f) {
       const std::string size = f.flag_value("mamba-block-size"), longest = f.flag_value("max-model-len");
       return f.keeps_prefixes() == Trait::No && is_given(f, "mamba-block-size") && is_number(size) &&
              is_number(longest) && size != longest;
     },
     "mamba-block-size max-model-len no-enable-prefix-caching"},
    {{"RS16", Note, Established, "--mamba-cache-mode has no effect: it follows --enable-prefix-caching", "",
      "remove it", "vllm 0.33.0 engine/arg_utils.py; 0.32.0 still reads it"},
     kFlags | kVllm,
     [](const Facts& f) {
       return f.flag("mamba-cache-mode") != nullptr && f.before({0, 33, 0}) != Trait::Yes;
     },
     "mamba-cache-mode"},
    {{"RS17", Error, Reported,
      "mixed chunks leave checkpoints of states unwritten, and later requests go on from stale ones: exact match 0.91 "
      "to 0.85 was reported",
      "that this version does it: reported for 0.5.16 and the main branch of September 2026",
      "without --enable-mixed-chunk, or --mamba-radix-cache-strategy no_buffer", "sglang issue 39342 (open)",
      Cause::KernelDefect, 6},
     kFlags | kAllFlags | kHybrid | kSglang,
     mixed_chunks,
     "enable-mixed-chunk mamba-radix-cache-strategy mamba-scheduler-strategy"},
    {{"RS18", Note, Inferred,
      "the recurrent state is rounded to 16 bits after each token, and its errors add up over a long answer",
      "that this output suffers from it",
      "keep the state in float32 and compare: --mamba-ssm-cache-dtype float32 (vLLM), --mamba-ssm-dtype float32 "
      "(SGLang); kvcal evaluate {model} --state-dtype bf16 measures it",
      "vllm change 39032: only float32 is known to have no accuracy issues with Nemotron-H"},
     kFlags | kOutput | kHybrid | kKnownServer,
     rounded_state,
     "mamba-ssm-cache-dtype mamba-cache-dtype mamba-ssm-dtype"},
};

}  // namespace

std::span<const CombinationRule> state_rules() { return kRules; }

}  // namespace kvcal
