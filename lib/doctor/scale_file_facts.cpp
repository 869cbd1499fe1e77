#include <cmath>

#include "artifact/artifact.h"
#include "base/file_kind.h"
#include "base/json_text.h"
#include "doctor/checkpoint_facts.h"

namespace kvcal {
namespace {

void count_scale(const Json* scale, ScaleFacts& facts) {
  if (scale == nullptr || !scale->is_number()) return;
  const double value = scale->get<double>();
  ++facts.n_sites;
  facts.n_invalid += !std::isfinite(value) || value <= 0;
  facts.n_unit += value == 1.0;
}

// At its scale rounding is not felt. Files of version 1.0 do not say so: there the site must be a plain FP8 round trip,
// nothing clipped, hardly any energy below the normal numbers.
bool is_format_noise(const Json& site) {
  if (const Json& assessment = object_at(site, "assessment"); !assessment.empty())
    return text_at(assessment, "fp8") == name_of(Fitness::Fine);
  const auto number = [&](const char* key) {
    const Json* value = find_member(object_at(site, "error"), key);
    return value != nullptr && value->is_number() ? value->get<double>() : 1.0;
  };
  constexpr double kOfFormat = 0.0265, kSpread = 0.0035;  // of one E4M3 rounding, and how far data move it
  return std::fabs(number("at_scale") - kOfFormat) < kSpread && number("clipped_at_scale") == 0;
}

// Files of version 1.0 do not say so.
bool is_one_enough(const Json& site) {
  const Json& assessment = object_at(site, "assessment");
  return text_at(assessment, "scale") == name_of(ScaleNeed::Any) &&
         text_at(assessment, "fp8") == name_of(Fitness::Fine);
}

void take_layer(const Json& layer, ScaleFacts& facts) {
  for (const char* name : {"key", "value", "latent"}) {
    const Json& site = object_at(layer, name);
    if (site.empty()) continue;
    count_scale(find_member(site, "scale"), facts);
    facts.only_format_noise &= is_format_noise(site);
    facts.one_would_do &= is_one_enough(site);
    if (name == std::string_view("latent")) facts.latent_width = integer_at(layer, "head_dim_k");
  }
}

void take_artifact(const Json& json, ScaleFacts& facts) {
  facts.is_artifact = true;
  const Json& identity = object_at(json, "model");
  facts.architecture = text_at(identity, "architecture");
  facts.fingerprint = text_at(identity, "weights_fingerprint");
  facts.config_sha256 = text_at(identity, "config_sha256");
  for (const Json& other : list_at(identity, "also_valid_for"))
    if (other.is_string()) facts.also_valid_for.push_back(other.get<std::string>());
  facts.longest = integer_at(object_at(json, "calibration"), "longest");
  facts.n_layers = list_at(json, "layers").size();
  facts.only_format_noise = facts.one_would_do = true;
  for (const Json& layer : list_at(json, "layers")) take_layer(layer, facts);
  facts.only_format_noise &= facts.n_sites > 0;
  facts.one_would_do &= facts.n_sites > 0;
}

// {"kv_cache": {"scaling_factor": {"0": {"0": 0.03, ...}}}}
bool take_server_json(const Json& json, ScaleFacts& facts) {
  const Json& inner = object_at(json, "kv_cache");
  const Json& ranks = object_at(inner.empty() ? json : inner, "scaling_factor");  // without it SGLang refuses the file
  if (ranks.empty() || !ranks.begin()->is_object()) return false;
  facts.json_type = text_at(inner, "dtype");
  for (const auto& [rank, of_rank] : ranks.items()) facts.ranks[rank] = of_rank.is_object() ? of_rank.size() : 0;
  const Json& layers = *ranks.begin();
  facts.n_layers = layers.size();
  for (const Json& scale : layers) count_scale(&scale, facts);
  return true;
}

}  // namespace

void take_scale_file(const std::filesystem::path& path, Facts& facts) {
  JsonLimits limits;
  limits.max_bytes = size_t{64} << 20;
  limits.allow_non_finite = true;
  const Json json = reading(FileKind::ScaleFile, kExpectedScales, path, [&] {
    Json read = read_json_file(path, limits);
    if (!read.is_object()) fail(quoted(path.string()) + ": not a scale file: no JSON object");
    return read;
  });
  ScaleFacts found;
  found.path = path.string();
  found.model_type = text_at(json, "model_type");
  if (text_at(json, "format") == kArtifactFormat)
    take_artifact(json, found);
  else if (!take_server_json(json, found))
    reading(FileKind::SglangScales, kExpectedScales, path, [&] {
      fail(quoted(path.string()) +
           ": not a scale file: has neither \"format\": \"kv-cache-scales\" nor kv_cache.scaling_factor");
    });
  facts.scales = std::move(found);
}

}  // namespace kvcal
