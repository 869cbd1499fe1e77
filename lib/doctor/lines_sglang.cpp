// Log lines of SGLang.
#include "doctor/entry.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

constexpr std::string_view kLoad = "sglang 0.5.23 srt/model_executor/model_runner_components/load_model_utils.py";
constexpr std::string_view kWeights = "sglang 0.5.23 srt/model_loader/weight_utils.py";
constexpr std::string_view kJson = "{export json}";

constexpr LogLine kLines[] = {
    {"Using FP8 KV cache but no scaling factors provided",
     {"LG14", Note, Established, "no --quantization-param-path was given",
      "that scales are missing: SGLang prints it also when scales of the checkpoint were loaded", "", kLoad},
     "fp8_e4m3"},
    {"Using FP8 KV cache and scaling factors provided but & does not support loading scaling factors",
     {"LG15", Fatal, Established, "this model class takes no JSON of scales", "", "{export to sglang}", kLoad,
      Cause::ScalesRefused, 9, "F34 F07 F42 S22b"},
     "fp8_e4m3"},
    {"Loaded KV cache scaling factors from",
     {"LG52", Note, Established, "the JSON of scales was read",
      "that the attention backend applies them: only part of the backends read what is stored there", "", kLoad}},
    {"Defaulting to KV cache scaling factors = 1.0 for all layers|Loaded scaling factors intended for KV cache dtype|"
     "but LLM engine is currently running with TP size|KV cache scales map for TP rank",
     {"LG53", Error, Established,
      "the JSON of scales was not taken, and every layer serves with 1.0; the lines before say why", "", kJson,
      kWeights, Cause::ScalesNotLoaded, 9}},
    {"scaling factors belonging to different",
     {"LG57", Error, Established, "the JSON of scales names another model type", "", kJson, kWeights,
      Cause::ScalesStale, 8}},
    {"cannot assign 'float' as parameter 'k_scale'",
     {"LG58", Fatal, Established, "a JSON file of scales was given with a checkpoint that has its own scales", "",
      "remove --quantization-param-path: {command}", "sglang 0.5.23, by running it", Cause::ScalesRefused, 9}},
    {"'float' object has no attribute 'expand'",
     {"LG59", Fatal, Established, "this attention backend cannot use scales from a JSON file", "",
      "{export to sglang}, without --quantization-param-path", "sglang issues 18818, 20705", Cause::ScalesRefused, 9}},
    {"Boolean value of Tensor with more than one value is ambiguous",
     {"LG76", Fatal, Inferred,
      "a scale of the checkpoint has several values (one per channel or head) where the server takes one",
      "that it is a KV scale, unless the lines above name kv_cache.py",
      "{export per tensor}; kvcal validate {model} names the tensors",
      "sglang issue 40243; sglang 0.5.23 srt/layers/quantization/kv_cache.py", Cause::ScalesRefused, 7}},
    {"not found in params_dict & k_scale",
     {"LG60", Error, Established, "a scale of the checkpoint was dropped: this model class has no parameter for it",
      "that the values are wrong; some classes print this, others drop scales without a warning",
      "{export to sglang}: names differ by model class", "sglang 0.5.23 srt/models/*.py", Cause::ScalesNotLoaded, 8}},
    {"not found in params_dict & q_scale",
     {"LG60q", Note, Established, "a query scale was dropped: SGLang does not use it",
      "that scales of keys or values are missing", "", "sglang 0.5.23 srt/models/*.py"}},
    {"Ignoring compressed-tensors kv_cache_scheme",
     {"LG61", Error, Established,
      "the checkpoint's scales are not used: SGLang takes one static symmetric FP8 scale per layer", "",
      "{export per tensor to sglang}", "sglang 0.5.23 srt/layers/quantization/compressed_tensors/compressed_tensors.py",
      Cause::ScalesNotLoaded, 8}},
    {"Using KV cache dtype: torch.float8_e4m3",
     {"LG16", Note, Established, "the KV cache is FP8", "anything about scales", "",
      "sglang 0.5.8 to 0.5.12 srt/model_executor/model_runner.py; later ones print no such line"}},
    {"on CUDA they require a bfloat16 KV cache",
     {"LG81", Fatal, Reported, "this SGLang's tilelang kernels for sparse attention take no FP8 cache on NVIDIA", "",
      "--kv-cache-dtype bfloat16; SGLang 0.5.23 takes FP8 where both --dsa backends are tilelang",
      "sglang issue 36830; sglang 0.5.23 srt/arg_groups/overrides.py", Cause::FormatUnsupported, 9}},
    {"Checkpoint has k_scale but KV cache dtype is not FP8",
     {"LG62", Note, Established, "the checkpoint's scales are not used, rightly: the cache is not FP8", "", "",
      "sglang 0.5.23 srt/layers/attention/trtllm_mla_backend.py"},
     "auto"},
    {"KV cache dtype mismatch: prefill server has",
     {"LG63", Fatal, Established, "prefill and decode servers store the cache in different types", "",
      "give both the same --kv-cache-dtype", "sglang 0.5.23 srt/disaggregation/common/conn.py", Cause::CacheTransfer,
      9}},
    {"SM100 native NVFP4 speculative decoding ",
     {"LG103", Fatal, Established, "this draft does not go with an NVFP4 cache on this GPU: the line says why", "",
      "what the line names, or {control}", "sglang 0.5.23 srt/arg_groups/kv_cache_hook.py", Cause::FormatUnsupported,
      9}},
    {"state_checkpoints must have dtype",
     {"LG104", Fatal, Reported, "two kernels of linear attention want the recurrent state in different types", "",
      "--linear-attn-prefill-backend triton, with --mamba-ssm-dtype bfloat16 where FlashInfer decodes",
      "sglang issue 36532; sglang 0.5.23 arg_groups/attention_hook.py", Cause::FormatUnsupported, 8}},
    {"Using FP8 KV cache scales",
     {"LG64", Note, Established, "scales were loaded", "", "", "text-generation-inference (db931fcf)"}},
    {"Ignoring FP8 KV cache scales",
     {"LG65", Warning, Established, "the checkpoint's scales are not used, because the cache or the backend is not FP8",
      "", "--kv-cache-dtype fp8_e4m3fn with flashinfer or paged attention", "text-generation-inference (db931fcf)",
      Cause::ScalesNotLoaded, 6}},
};

}  // namespace

std::span<const LogLine> sglang_lines() { return kLines; }

}  // namespace kvcal
