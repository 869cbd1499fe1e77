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
  if (const Json* assessment = find_member(site, "assessment"); assessment != nullptr && assessment->is_object())
    return text_at(*assessment, "fp8") == name_of(Fitness::Fine);
  const Json* error = find_member(site, "error");
  if (error == nullptr || !error->is_object()) return false;
  const auto number = [&](const char* key) {
    const Json* value = find_member(*error, key);
    return value != nullptr && value->is_number() ? value->get<double>() : 1.0;
  };
  constexpr double kOfFormat = 0.0265, kSpread = 0.0035;  // of one E4M3 rounding, and how far data move it
  return std::fabs(number("at_scale") - kOfFormat) < kSpread && number("clipped_at_scale") == 0;
}

void take_layer(const Json& layer, ScaleFacts& facts) {
  if (!layer.is_object()) return;
  for (const char* name : {"key", "value", "latent"}) {
    const Json* site = find_member(layer, name);
    if (site == nullptr || !site->is_object()) continue;
    count_scale(find_member(*site, "scale"), facts);
    facts.only_format_noise &= is_format_noise(*site);
    const Json* width = find_member(layer, "head_dim_k");
    if (name == std::string_view("latent") && width != nullptr && width->is_number_integer())
      facts.latent_width = width->get<int64_t>();
  }
}

void take_artifact(const Json& json, ScaleFacts& facts) {
  facts.is_artifact = true;
  const Json empty = Json::object();
  const Json* model = find_member(json, "model");
  const Json& identity = model != nullptr && model->is_object() ? *model : empty;
  facts.architecture = text_at(identity, "architecture");
  facts.fingerprint = text_at(identity, "weights_fingerprint");
  facts.config_sha256 = text_at(identity, "config_sha256");
  if (const Json* also = find_member(identity, "also_valid_for"); also != nullptr && also->is_array())
    for (const Json& other : *also)
      if (other.is_string()) facts.also_valid_for.push_back(other.get<std::string>());
  const Json* calibration = find_member(json, "calibration");
  const Json* longest =
      calibration != nullptr && calibration->is_object() ? find_member(*calibration, "longest") : nullptr;
  if (longest != nullptr && longest->is_number_integer()) facts.longest = longest->get<int64_t>();
  const Json* layers = find_member(json, "layers");
  if (layers == nullptr || !layers->is_array()) return;
  facts.n_layers = layers->size();
  facts.only_format_noise = !layers->empty();
  for (const Json& layer : *layers) take_layer(layer, facts);
  facts.only_format_noise &= facts.n_sites > 0;
}

// {"kv_cache": {"scaling_factor": {"0": {"0": 0.03, ...}}}}
bool take_server_json(const Json& json, ScaleFacts& facts) {
  const Json* inner = find_member(json, "kv_cache");
  const Json* cache = inner != nullptr ? inner : &json;  // without it SGLang refuses the file
  const Json* ranks = cache != nullptr && cache->is_object() ? find_member(*cache, "scaling_factor") : nullptr;
  if (ranks == nullptr || !ranks->is_object() || ranks->empty() || !ranks->begin()->is_object()) return false;
  if (inner != nullptr) facts.json_type = text_at(*cache, "dtype");
  for (const auto& [rank, of_rank] : ranks->items()) facts.ranks[rank] = of_rank.is_object() ? of_rank.size() : 0;
  const Json& layers = *ranks->begin();
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
