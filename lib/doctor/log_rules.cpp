// L and P: log lines together with what is known of the checkpoint and the command.
#include "base/letter_case.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

/// As config.json, the command or the model's name says.
bool may_have_fp8_weights(const Facts& f) {
  const auto is_fp8 = [](const std::string& text) { return lower_case(text).find("fp8") != text.npos; };
  const bool declared =
      f.checkpoint && (is_fp8(f.checkpoint->declaration.method) || is_fp8(f.checkpoint->declaration.weights));
  return declared || is_fp8(f.flag_value("quantization")) || is_fp8(f.model_path);
}

constexpr CombinationRule kRules[] = {
    {{"L08", Error, Established,
      "the checkpoint has scales, and the server runs at least one layer at 1.0: they were not loaded",
      "that all layers are at 1.0", "{export to vllm}; kvcal validate EXPORT", "vllm 0.33.0 kv_cache.py",
      Cause::ScalesNotLoaded, 9, "LG2"},
     kLog | kTensors,
     [](const Facts& f) -> Found {
       const size_t n = f.checkpoint->n_scales() - f.checkpoint->n_unit;
       return {f.seen("LG2") && n > 0, std::to_string(n) + " scales of the checkpoint are not 1.0"};
     },
     "{LG2}"},
    {{"L08b", Error, Established,
      "there is a scale file, but the server runs at least one layer at 1.0: it did not get the scales",
      "that all layers are at 1.0", "{export to vllm}, and serve the export", "vllm 0.33.0 kv_cache.py",
      Cause::ScalesNotLoaded, 7, "LG2"},
     kLog | kScales,
     [](const Facts& f) -> Found {
       return {f.seen("LG2") && f.scales->n_layers > 0 && !f.seen("LG70"),
               "the scale file has " + std::to_string(f.scales->n_layers) + " layers"};
     },
     "{LG2}"},
    {{"L07", Error, Established,
      "the names of an MLA model's scales are rewritten twice, so none is loaded (vLLM 0.25 and later)",
      "damage: 1.0 is right wherever magnitudes stay below 448", "the plug-in of docs/plugins.md sets them",
      "vllm change 44589; vllm 0.33.0, by running it", Cause::ScalesNotLoaded, 9},
     kLog | kLatent,
     [](const Facts& f) { return f.seen("LG12b") && !f.is(Engine::Sglang); },
     "{LG12b}"},
    {{"L10", Fatal, Established, "this GPU is older than the FP8 format that Triton needs for the cache", "",
      "{control}, another attention backend, or a GPU of compute capability 8.9 or later",
      "vllm 0.33.0 v1/attention/backends/triton_attn.py, mla/triton_mla.py; vllm issue 45829", Cause::FormatUnsupported,
      9, "LG24b"},
     kLog | kFp8,
     [](const Facts& f) { return f.seen("LG24b") && !may_have_fp8_weights(f); },
     "{LG24b}"},
    {{"L11", Fatal, Established, "this GPU is older than the FP8 format that a kernel of weights needs", "",
      "weights that are not in FP8, or a GPU of compute capability 8.9 or later",
      "vllm 0.20.0 to 0.33.0 model_executor/layers/quantization/utils/fp8_utils.py; vllm issue 26431",
      Cause::NotTheCache, 9, "LG24b"},
     kLog,
     // Kernels of FP8 weights print the same.
     [](const Facts& f) { return f.seen("LG24b") && f.cache.quantized == Trait::No; },
     "{LG24b}"},
    {{"L09", Note, Established,
      "no log line tells whether scales were loaded: vLLM prints none for compressed-tensors (since 0.15) and for "
      "unquantized checkpoints",
      "that scales are there, or that they are missing", "kvcal doctor --model MODEL looks into the checkpoint",
      "vllm 0.33.0, by running it"},
     kLog | kFlags | kVllm | kStaticFp8,
     [](const Facts& f) {
       const bool spoke = f.seen("LG2") || f.seen("LG70") || f.seen("LG12") || f.seen("LG12b");
       const bool known = f.checkpoint && (f.checkpoint->has_tensors || f.checkpoint->declaration.method.empty());
       return !spoke && !known;
     },
     "{LG1}"},
    {{"P01", Error, Established, "the command asks for the plug-in, but its line is not in the log: no scales were set",
      "that the server runs: without the plug-in it refuses to start; and a truncated log has no such line either",
      "install the wheel kvcal (or apps/plugins alone) in the server's environment, and no VLLM_PLUGINS list without "
      "it",
      "apps/plugins", Cause::PluginMissing, 7},
     kLog | kFlags,
     [](const Facts& f) {
       return f.flag_value("load-format") == "kv_cache_scales" && !f.seen("LG70") && !f.seen("LG72");
     },
     "load-format"},
};

}  // namespace

std::span<const CombinationRule> log_rules() { return kRules; }

}  // namespace kvcal
