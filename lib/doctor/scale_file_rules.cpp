// S, C and F: a scale file beside what is served.
#include <algorithm>

#include "base/error.h"
#include "check/artifact_checks.h"
#include "doctor/rules.h"

namespace kvcal {
namespace {

using enum Severity;
using enum Confidence;

Found other_weights(const Facts& f) {
  const ScaleFacts& s = *f.scales;
  const auto listed = [&](const std::string& print) {
    return std::find(s.also_valid_for.begin(), s.also_valid_for.end(), print) != s.also_valid_for.end();
  };
  if (!s.is_artifact || listed(f.checkpoint_fingerprint)) return {};
  const bool weights =
      !f.checkpoint_fingerprint.empty() && !s.fingerprint.empty() && f.checkpoint_fingerprint != s.fingerprint;
  const bool config =
      !f.checkpoint_config_sha256.empty() && !s.config_sha256.empty() && f.checkpoint_config_sha256 != s.config_sha256;
  if (!weights && !config) return {};
  const bool folded = f.checkpoint->fold && f.checkpoint->fold->original_fingerprint == s.fingerprint;
  return {true, folded              ? "the weights were folded since: calibrate the folded folder"
                : weights && config ? "weights and config.json differ"
                : weights           ? "weights differ"
                                    : "config.json differs"};
}

/// Whether SGLang reads a JSON of scales for this class: not known of one that its table does not have.
Trait takes_json(const Facts& f) {
  const std::optional<ServerSupport> support = support_of(f);
  return support ? trait_of(support->json) : Trait::Unknown;
}

// For wrappers, such as vision models, the scale file has the outer model_type, facts the inner: compare the classes.
Found other_model_type(const Facts& f) {
  if (!f.scales->is_artifact && f.is(Engine::Sglang) && takes_json(f) == Trait::No) return {};
  if (!f.scales->architecture.empty() && f.scales->architecture == f.model.architecture) return {};
  const bool differs =
      !f.scales->model_type.empty() && !f.model.model_type.empty() && f.scales->model_type != f.model.model_type;
  return {differs, "'" + f.scales->model_type + "', the checkpoint '" + f.model.model_type + "'"};
}

bool is_of_another(const Facts& f) { return f.checkpoint && (other_weights(f).holds || other_model_type(f).holds); }

Found short_calibration(const Facts& f) {
  const std::string given = f.flag_value(f.is(Engine::Sglang) ? "context-length" : "max-model-len");
  const int64_t length = given.empty() ? 0 : std::atoll(given.c_str());
  return {f.scales->longest > 0 && is_short_for(f.scales->longest, length),
          "longest prompt " + std::to_string(f.scales->longest) + " tokens, served up to " + std::to_string(length)};
}

Found file_goes_nowhere(const Facts& f) {
  const bool given = f.flag("quantization-param-path") != nullptr || uses_plugin(f);
  const bool inside = f.checkpoint && (f.checkpoint->n_scales() > 0 || !f.checkpoint->has_tensors);
  if (given || inside || !f.checkpoint || is_of_another(f)) return {};
  return is_one_enough(f) ? Found{true, "by the file itself 1.0 does as well", {}, true} : Found{true};
}

// SGLang 0.5.23 weight_utils.py: what its schema of the file asks for; else every layer gets 1.0.
Found json_refused(const Facts& f) {
  const ScaleFacts& s = *f.scales;
  if (s.ranks.empty() || takes_json(f) == Trait::No) return {};
  const auto n = static_cast<size_t>(n_ranks(f));
  if (s.json_type.empty()) return {true, "no kv_cache.dtype"};
  if (s.json_type != "float8_e4m3fn") return {true, "dtype " + quoted(s.json_type) + ", expected float8_e4m3fn"};
  if (knows_flags(f) && s.ranks.size() != n)
    return {true, std::to_string(s.ranks.size()) + " ranks, the server has " + std::to_string(n)};
  for (size_t rank = 0; rank < s.ranks.size(); ++rank) {
    const auto found = s.ranks.find(std::to_string(rank));
    if (found == s.ranks.end()) return {true, "no rank '" + std::to_string(rank) + "'"};
    if (f.model.n_layers > 0 && found->second != static_cast<size_t>(f.model.n_layers))
      return {true, "rank " + std::to_string(rank) + " has " + std::to_string(found->second) + " layers, the model " +
                        std::to_string(f.model.n_layers)};
  }
  return {};
}

constexpr CombinationRule kRules[] = {
    {{"S22", Error, Established, "the scales were calibrated on another checkpoint",
      "that they are too small: only calibration tells", kCalibrate, "weights fingerprint of the scale file",
      Cause::ScalesStale, 9},
     kScales | kCheckpoint,
     other_weights,
     "{scales} {checkpoint}"},
    {{"S22b", Error, Established, "the scale file is for another model type: SGLang refuses it", "", kCalibrate,
      "sglang 0.5.23 weight_utils.py", Cause::ScalesStale, 8},
     kScales | kCheckpoint,
     other_model_type,
     "{scales}"},
    {{"S02b", Error, Established, "the scale file has a scale that is zero, negative or not finite", "",
      "calibrate again; kvcal validate names the layers", "", Cause::ScalesInvalid, 9},
     kScales,
     [](const Facts& f) -> Found {
       return {f.scales->n_invalid > 0, count(f.scales->n_invalid, "scale")};
     },
     "{scales}"},
    {entry_of("S23", Inferred, "that magnitudes grow with position",
              "calibrate with longer prompts, or --max-model-len", "vllm issue 52793", Cause::ScalesStale, 2),
     kScales | kFlags, short_calibration, "{scales}"},
    {{"F30", Warning, Established, "nothing passes this scale file to the server: no server has an option for it", "",
      kExport, "vllm 0.33.0, sglang 0.5.23", Cause::ScalesNotLoaded, 7, "F08"},
     kScales | kFlags | kTensors | kQuantized,
     file_goes_nowhere,
     "{scales}"},
    {entry_of("C06", Established, "", kCalibrate, "vllm change 42956", Cause::ScalesStale, 8), kScales | kCheckpoint,
     [](const Facts& f) -> Found {
       const int64_t measured = f.scales->latent_width, width = f.model.latent_width;
       return {measured != 0 && width != 0 && measured != width,
               std::to_string(measured) + " of " + std::to_string(width) + " columns"};
     },
     "{scales}"},
    {{"E11", Note, Computed,
      "at these scales the cache has only the rounding error of its format: other scales cannot help",
      "that the model tolerates this error", "if it does not, keep layers in bf16", "2.65 % of one E4M3 rounding"},
     kScales,
     [](const Facts& f) { return f.scales->only_format_noise; },
     "{scales}"},
    {{"F42", Fatal, Established,
      "SGLang has no loader of scales for this class: with --quantization-param-path it does not start", "",
      "{export to sglang}, and leave the option out",
      "sglang 0.5.9 to 0.5.23 load_kv_cache_scales, by the classes of 0.5.23", Cause::ScalesRefused, 9, "F07"},
     kFlags | kCheckpoint | kSglang,
     [](const Facts& f) -> Found {
       return {reads_parameter_path(f) && takes_json(f) == Trait::No, f.model.architecture};
     },
     "quantization-param-path"},
    {{"F34", Error, Established, "SGLang refuses this JSON of scales: every layer gets 1.0", "", "{export json}",
      "sglang 0.5.23 srt/model_loader/weight_utils.py", Cause::ScalesNotLoaded, 8, "F07"},
     kScales | kSglang,
     json_refused,
     "{scales}"},
};

}  // namespace

bool is_one_enough(const Facts& f) { return f.scales && f.scales->one_would_do && !is_of_another(f); }

std::span<const CombinationRule> scale_file_rules() { return kRules; }

}  // namespace kvcal
