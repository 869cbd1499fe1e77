// L and P: log lines together with what is known of the checkpoint and the command.
#include "base/letter_case.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

Found lines_of(const Facts& f, std::initializer_list<std::string_view> ids, std::string detail = "") {
  Found found = {true, std::move(detail), {}};
  for (const std::string_view id : ids)
    if (const auto sign = f.lines.find(id); sign != f.lines.end())
      found.evidence.insert(found.evidence.end(), sign->second.evidence.begin(), sign->second.evidence.end());
  return found;
}

Found not_loaded(const Facts& f) {
  const CheckpointFacts& c = *f.checkpoint;
  if (!f.seen("LG2") || c.n_scales() == c.n_unit) return {};
  return lines_of(f, {"LG2"}, std::to_string(c.n_scales() - c.n_unit) + " scales of the checkpoint are not 1.0");
}

Found not_loaded_from_file(const Facts& f) {
  if (!f.seen("LG2") || f.scales->n_layers == 0 || f.seen("LG70")) return {};
  return lines_of(f, {"LG2"}, "the scale file has " + std::to_string(f.scales->n_layers) + " layers");
}

Found latent_names(const Facts& f) {
  const auto sign = f.lines.find("LG12b");
  if (sign == f.lines.end() || f.is(Engine::Sglang)) return {};
  return lines_of(f, {"LG12b"});
}

Found silence(const Facts& f) {
  const bool spoke = f.seen("LG2") || f.seen("LG70") || f.seen("LG12") || f.seen("LG12b");
  const bool known = f.checkpoint && (f.checkpoint->has_tensors || f.checkpoint->method.empty());
  return !spoke && !known ? lines_of(f, {"LG1"}) : Found{};
}

/// As config.json, the command or the model's name says.
bool may_have_fp8_weights(const Facts& f) {
  const auto is_fp8 = [](const std::string& text) { return lower_case(text).find("fp8") != text.npos; };
  const bool declared = f.checkpoint && (is_fp8(f.checkpoint->method) || is_fp8(f.checkpoint->declaration.weights));
  return declared || is_fp8(f.flag_value("quantization")) || is_fp8(f.model_path);
}

// Kernels of FP8 weights print the same.
Found lacks_fp8_for_cache(const Facts& f) {
  return f.seen("LG24b") && !may_have_fp8_weights(f) ? lines_of(f, {"LG24b"}) : Found{};
}

Found lacks_fp8_for_weights(const Facts& f) {
  return f.seen("LG24b") && f.cache.quantized == Trait::No ? lines_of(f, {"LG24b"}) : Found{};
}

Found plugin_silent(const Facts& f) {
  if (f.flag_value("load-format") != "kv_cache_scales" || f.seen("LG70") || f.seen("LG72")) return {};
  return found_in_flags(f, {"load-format"});
}

constexpr CombinationRule kRules[] = {
    {{"L08", Error, Established,
      "the checkpoint has scales, and the server runs at least one layer at 1.0: they were not loaded",
      "that all layers are at 1.0", "{export to vllm}; kvcal validate EXPORT", "vllm 0.33.0 kv_cache.py",
      Cause::ScalesNotLoaded, 9, "LG2"},
     kLog | kTensors,
     not_loaded},
    {{"L08b", Error, Established,
      "there is a scale file, but the server runs at least one layer at 1.0: it did not get the scales",
      "that all layers are at 1.0", "{export to vllm}, and serve the export", "vllm 0.33.0 kv_cache.py",
      Cause::ScalesNotLoaded, 7, "LG2"},
     kLog | kScales,
     not_loaded_from_file},
    {{"L07", Error, Established,
      "the names of an MLA model's scales are rewritten twice, so none is loaded (vLLM 0.25 and later)",
      "damage: 1.0 is right wherever magnitudes stay below 448", "the plug-in of docs/plugins.md sets them",
      "vllm change 44589; vllm 0.33.0, by running it", Cause::ScalesNotLoaded, 9},
     kLog | kLatent,
     latent_names},
    {{"L10", Fatal, Established, "this GPU is older than the FP8 format that Triton needs for the cache", "",
      "{control}, another attention backend, or a GPU of compute capability 8.9 or later",
      "vllm 0.33.0 v1/attention/backends/triton_attn.py, mla/triton_mla.py; vllm issue 45829", Cause::FormatUnsupported,
      9, "LG24b"},
     kLog | kFp8,
     lacks_fp8_for_cache},
    {{"L11", Fatal, Established, "this GPU is older than the FP8 format that a kernel of weights needs", "",
      "weights that are not in FP8, or a GPU of compute capability 8.9 or later",
      "vllm 0.20.0 to 0.33.0 model_executor/layers/quantization/utils/fp8_utils.py; vllm issue 26431",
      Cause::NotTheCache, 9, "LG24b"},
     kLog,
     lacks_fp8_for_weights},
    {{"L09", Note, Established,
      "no log line tells whether scales were loaded: vLLM prints none for compressed-tensors (since 0.15) and for "
      "unquantized checkpoints",
      "that scales are there, or that they are missing", "kvcal doctor --model MODEL looks into the checkpoint",
      "vllm 0.33.0, by running it"},
     kLog | kFlags | kVllm | kStaticFp8,
     silence},
    {{"P01", Error, Established, "the command asks for the plug-in, but its line is not in the log: no scales were set",
      "that the server runs: without the plug-in it refuses to start; and a truncated log has no such line either",
      "install the wheel kvcal (or apps/plugins alone) in the server's environment, and no VLLM_PLUGINS list without "
      "it",
      "apps/plugins", Cause::PluginMissing, 7},
     kLog | kFlags,
     plugin_silent},
};

}  // namespace

std::span<const CombinationRule> log_rules() { return kRules; }

}  // namespace kvcal
