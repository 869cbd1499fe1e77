// Log lines and errors of vLLM while it loads KV-cache scales.
#include "doctor/entry.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

constexpr std::string_view kExport = "export again for this server: {export to vllm}";
constexpr std::string_view kNewer =
    "a newer version of the server, or the checkpoint without KV scales; kvcal validate {model} says what the newest "
    "does with these names";
constexpr std::string_view kTensors =
    "vllm 0.33.0 model_executor/layers/quantization/compressed_tensors/compressed_tensors.py";
constexpr std::string_view kWeights = "vllm 0.33.0 model_executor/model_loader/weight_utils.py";

/// The missing name decides what helps.
constexpr LogLine unknown_name(std::string_view pattern, std::string_view fix) {
  return {
      .pattern = pattern,
      .entry = {
          .id = "LG36",
          .severity = Fatal,
          .meaning = "the loader of this model class does not know the name of a scale",
          .not_proved = "that the scales are wrong: this class, in this version, has no parameter of that name",
          .fix = fix,
          .source = "reports of vLLM 0.6.4 and 0.15, llm-compressor issue 967; sglang 0.5.23 models/gemma3_causal.py",
          .cause = Cause::ScalesRefused,
          .weight = 9}};
}

constexpr LogLine kLines[] = {
    {"Only support per-tensor scaling factor|KV-cache scale expects a scalar weight",
     {"LG9", Fatal, Established, "scales per head in a checkpoint whose quantization method takes one per layer", "",
      "{export per tensor}", "vllm 0.33.0 model_executor/layers/quantization/kv_cache.py", Cause::ScalesRefused, 9}},
    {"fp8_e5m2 kv-cache is not supported with",
     {"LG10", Fatal, Established,
      "vLLM takes no E5M2 cache with this checkpoint: where it carries FP8 KV scales, and before 0.24 with any "
      "quantization that could carry them",
      "that the checkpoint has KV scales",
      "vLLM 0.24 or later where config.json declares no KV cache scheme; else --kv-cache-dtype fp8_e4m3 (compute "
      "capability 8.9 or later)",
      "vllm 0.8.5 to 0.33.0 model_executor/layers/attention/attention.py", Cause::ScalesRefused, 9}},
    {"DEPRECATED. Found kv_scale in the checkpoint",
     {"LG11", Warning, Established,
      "one old-style kv_scale serves keys and values; with compressed-tensors only keys get it",
      "that the value is wrong: the larger of both is a sound joint scale", kExport,
      "vllm 0.33.0 model_executor/model_loader/weight_utils.py; sglang 0.5.23", Cause::ScalesNotLoaded, 4}},
    {"kv_scale is not loaded",
     {"LG12", Error, Established, "the checkpoint's kv_scale was dropped: those layers serve with 1.0", "", kExport,
      "vllm 0.33.0 model_executor/model_loader/weight_utils.py", Cause::ScalesNotLoaded, 8}},
    {"but not found the expected name in the model & is not loaded ! Found kv_scale",
     {"LG12b", Error, Established,
      "scales of the checkpoint were dropped, because the model has no parameter of that name",
      "that only the layer named lost its scale: printed once", kExport,
      "vllm 0.33.0, sglang 0.5.23 model_loader/weight_utils.py", Cause::ScalesNotLoaded, 8}},
    {"Found mla_attn with k_scale and v_scale in the checkpoint",
     {"LG13", Note, Established, "names of MLA scales are being mapped", "that they arrive: since 0.25 they do not", "",
      kWeights}},
    {"There is no module or parameter named & _scale",
     {"LG38", Fatal, Established,
      "the checkpoint has a scale for a module that the model does not have, or scales without a quantization_config",
      "that the scales are wrong: their names are, or config.json is", kExport,
      "vllm 0.33.0 model_executor/models/utils.py", Cause::ScalesRefused, 8}},
    {"Attempted to load weight & _scale with dtype",
     {"LG39", Note, Established, "the scale was rounded to the model's type, up to 0.4 percent in bf16",
      "damage: FP8 scales have far more slack than that", "", "vllm 0.33.0 model_executor/models/utils.py"}},
    {"Currently supported kv cache quantization is|Invalid strategy for compressed-tensors KV cache|"
     "is not a valid QuantizationStrategy|Only support symmetric scaling factor",
     {"LG40", Fatal, Established,
      "kv_cache_scheme in config.json is not what vLLM takes: 8-bit float, symmetric, strategy tensor or attn_head", "",
      kExport, kTensors, Cause::ScalesRefused, 9}},
    {"per-head quant scales not supported",
     {"LG43", Fatal, Established, "the attention backend takes one scale per layer; the checkpoint has one per head",
      "", "{export per tensor}, or a backend with FlashAttention 3", "vllm 0.33.0 v1/attention/backend.py",
      Cause::ScalesRefused, 9}},
    {"Missing 'quant_algo' in quantization config",
     {"LG45", Fatal, Established, "a ModelOpt configuration that quantizes only the cache, which vLLM does not take",
      "", kExport, "vllm 0.33.0 model_executor/layers/quantization/modelopt.py", Cause::ScalesRefused, 9}},
    {"Unknown kv_cache_quant_algo",
     {"LG46", Error, Established, "the cache stays in the model's type: its declared quantization is not understood",
      "", "{fp8} in the command, or export again", "vllm 0.33.0 utils/torch_utils.py", Cause::ScalesNotLoaded, 6}},
    {"Weight files referenced in index but missing",
     {"LG48", Fatal, Established, "model.safetensors.index.json names files that do not exist",
      "anything about scales, unless the file named is the one with the scales",
      "copy the checkpoint again, or export again", kWeights, Cause::ScalesRefused, 5}},
    {"Skipping CompressedTensors config group",
     {"LG49", Note, Established,
      "the quantization group of attention modules is left out; scales of the cache load without it", "", "",
      kTensors}},
    unknown_name("KeyError: ' & .q_scale'", "export again without query scales (--no-query), for this server"),
    unknown_name("KeyError: ' & .k_scale'", kNewer),
    unknown_name("KeyError: ' & .v_scale'", kNewer),
    unknown_name("KeyError: ' & .kv_scale'", kNewer),
    unknown_name("KeyError: ' & .output_scale'", kNewer),
    {"assert layer.k_scale > 0.0",
     {"LG37", Fatal, Established,
      "a key scale that is zero, negative, NaN or missing beside a value scale; zero also after an offload that loses "
      "it",
      "", "kvcal validate EXPORT; then export again", "vllm 0.33.0 and sglang 0.5.23 layers/quantization/kv_cache.py",
      Cause::ScalesInvalid, 9}},
    {"Load format `kv_cache_scales` is not supported",
     {"LG72", Fatal, Established,
      "the plug-in that the command asks for is not installed, or a VLLM_PLUGINS list keeps it out", "",
      "install the wheel kvcal (or apps/plugins alone) in the server's environment; add kv_cache_scales to "
      "VLLM_PLUGINS",
      "vllm 0.33.0 model_executor/model_loader/__init__.py", Cause::PluginMissing, 9}},
    {"Invalid kv_cache_dtype",
     {"LG50", Fatal, Established, "this server does not know the cache type that the line names",
      "that the command asks for it: a platform's plug-in may hand over the type of --dtype",
      "{fp8}; where the line names float16, vLLM 0.18 or later",
      "vllm 0.33.0 config/cache.py, v1/attention/selector.py; vllm-ascend issue 7685", Cause::FormatUnsupported, 9}},
    {"--kv-cache-dtype: invalid choice",
     {"LG51", Fatal, Established, "this server does not know the cache type asked for: the names differ by server", "",
      "{fp8}, or {control}", "argparse, for vllm 0.33.0 and sglang 0.5.23", Cause::FormatUnsupported, 9}},
};

}  // namespace

std::span<const LogLine> vllm_load_lines() { return kLines; }

}  // namespace kvcal
