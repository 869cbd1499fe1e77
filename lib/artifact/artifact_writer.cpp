#include "artifact/artifact.h"
#include "artifact/artifact_parts.h"
#include "artifact/json_text.h"
#include "solve/policies.h"
#include "stats/further_members.h"

namespace kvcal {
namespace {

constexpr double kOldClippedLimit = 1e-6, kOldLostLimit = 0.1, kOldDominatingLimit = 0.5;

Json names_of(const std::vector<Departure>& departures) {
  Json out = Json::array();
  for (const Departure departure : departures) out.push_back(name_of(departure));
  return out;
}

Json error_json(const ArtifactError& e) {
  Json out = {{"at_scale", json_number(e.at_scale)},
              {"at_one", json_number(e.at_one)},
              {"clipped_at_scale", json_number(e.clipped_at_scale)},
              {"clipped_at_one", json_number(e.clipped_at_one)},
              {"lost_at_scale", json_number(e.lost_at_scale)},
              {"lost_at_one", json_number(e.lost_at_one)}};
  if (e.noise_at_scale) out["noise_at_scale"] = json_number(*e.noise_at_scale);
  if (e.noise_at_one) out["noise_at_one"] = json_number(*e.noise_at_one);
  if (e.dominating_at_scale) out["dominating_at_scale"] = json_number(*e.dominating_at_scale);
  return out;
}

/// Up to version 1.2 there was an answer between two limits: for its readers both are there.
Json limit_json(double limit) { return {{"check", limit}, {"keep16", limit}}; }

Json damage_json(const DamageAtScale& d, const AssessmentLimits& limits) {
  Json out = Json::object();
  const auto figure = [&](const char* name, const std::optional<double>& value) {
    if (value) out[name] = json_number(static_cast<float>(*value));
  };
  figure("kl", d.kl);
  figure("kl_unseen", d.kl_unseen);
  figure("rel", d.rel);
  figure("noise", d.noise);
  figure("flushed_tokens", d.flushed_tokens);
  figure("on_stream", d.on_stream);
  out["clips"] = d.clips;
  out["by"] = name_of(d.by);
  out["decided_by"] = name_of(d.decided_by);
  if (const std::optional<double> limit = limit_of(limits, d.decided_by)) out["limits"] = limit_json(*limit);
  out["severity"] = json_number(static_cast<float>(d.severity));
  out["fp8"] = name_of(d.fitness);
  return out;
}

Json assessment_json(const Assessment& a, const AssessmentLimits& limits) {
  return {{"scale", name_of(a.scale)},
          {"fp8", name_of(a.fp8)},
          {"by", name_of(a.at_scale.by)},
          {"at_scale", damage_json(a.at_scale, limits)},
          {"at_one", damage_json(a.at_one, limits)}};
}

Json site_json(const ArtifactSite& s, const AssessmentLimits& limits) {
  Json out = {{"scale", json_number(s.scale)}, {"absmax", json_number(s.absmax)}};
  if (s.parts) {
    out["absmax_latent"] = json_number(s.parts->absmax_latent);
    out["absmax_rope"] = json_number(s.parts->absmax_rope);
  }
  if (s.envelope) out["envelope"] = json_number(*s.envelope);
  if (s.uses_envelope) out["uses_envelope"] = *s.uses_envelope;
  out["observations"] = s.observations;
  out["assessment"] = assessment_json(s.assessment, limits);
  out["verdict"] = name_of(s.verdict());
  if (s.departs) out["departs_from_one"] = names_of(*s.departs);
  if (!s.scale_per_head.empty()) out["scale_per_head"] = numbers(s.scale_per_head);
  if (!s.scale_per_channel.empty()) out["scale_per_channel"] = numbers(s.scale_per_channel);
  out["absmax_per_head"] = numbers(s.absmax_per_head);
  if (!s.zero_heads.empty()) out["zero_heads"] = s.zero_heads;
  out["absmax_by_position"] = numbers(s.absmax_by_position);
  out["error"] = error_json(s.error);
  if (s.parts) {
    out["error_latent"] = error_json(s.parts->error_latent);
    out["error_rope"] = error_json(s.parts->error_rope);
  }
  out["where"] = where_json(s.where);
  out["growth"] = growth_json(s.growth);
  return out;
}

Json joint_json(const ArtifactJoint& j) {
  return {{"scale", json_number(j.scale)},
          {"verdict", name_of(j.verdict())},
          {"key", name_of(j.key)},
          {"value", name_of(j.value)},
          {"loses_key", j.loses_key},
          {"loses_value", j.loses_value},
          {"lost_key", json_number(j.lost_key)},
          {"lost_value", json_number(j.lost_value)},
          {"noise", json_number(j.noise)}};
}

Json layer_json(const ArtifactLayer& l, const AssessmentLimits& limits) {
  Json out = {{"index", l.index},
              {"name", l.name},
              {"kind", l.kind},
              {"n_heads", l.n_heads},
              {"n_kv_heads", l.n_kv_heads},
              {"head_dim_k", l.head_dim_k},
              {"head_dim_v", l.head_dim_v}};
  for (const NamedSite& s : sites_of(l)) out[s.name] = site_json(*s.site, limits);
  if (!l.is_mla()) out["joint"] = joint_json(l.joint);
  return out;
}

Json quantization_json(const ArtifactQuantization& q) {
  Json out = {{"dtype", q.dtype},
              {"max", static_cast<int64_t>(q.max)},  // whole in every format
              {"granularity", name_of(q.granularity)},
              {"convention", "real = stored * scale"},
              {"policy", q.policy}};
  if (q.headroom) out["headroom"] = *q.headroom;
  if (q.percentile) out["percentile"] = *q.percentile;
  out["max_model_len"] = q.max_model_len;
  out["limits"] = {{"kl", limit_json(q.limits.kl)},
                   {"rel", limit_json(q.limits.rel)},
                   {"noise_nats", limit_json(q.limits.noise)},
                   {"flushed_tokens", limit_json(q.limits.flushed_tokens)},
                   {"growth", q.limits.growth},
                   {"dependence", q.limits.dependence},
                   // What readers of 1.0 ask for; nothing turns on these but noise.
                   {"clipped", kOldClippedLimit},
                   {"lost", kOldLostLimit},
                   {"noise", q.limits.noise},
                   {"dominating", kOldDominatingLimit}};
  return out;
}

Json coverage_json(const std::optional<PromptsBeyond>& beyond) {
  if (!beyond) return nullptr;
  Json out = {{"n_prompts", beyond->n_prompts},
              {"beyond_absmax", beyond->absmax},
              {"beyond_headroom", beyond->headroom ? Json(*beyond->headroom) : Json(nullptr)}};
  add_further(beyond->further, out);
  return out;
}

/// The layout of SGLang's --quantization-param-path (and of vLLM 0.4 to 0.6): tensor-parallel rank, then layer.
Json kv_cache_json(const std::vector<float>& scales) {
  Json rank = Json::object();
  for (size_t layer = 0; layer < scales.size(); ++layer) rank[std::to_string(layer)] = json_number(scales[layer]);
  return {{"dtype", "float8_e4m3fn"}, {"scaling_factor", {{"0", rank}}}};
}

}  // namespace

std::vector<float> ArtifactSite::scales() const {
  if (!scale_per_channel.empty()) return scale_per_channel;
  return scale_per_head.empty() ? std::vector{scale} : scale_per_head;
}

std::vector<NamedSite> cached_sites(const ArtifactLayer& layer) {
  if (layer.is_mla()) return {{"latent", &layer.latent}};
  return {{"key", &layer.key}, {"value", &layer.value}};
}

std::vector<NamedSite> sites_of(const ArtifactLayer& layer) {
  std::vector<NamedSite> sites = cached_sites(layer);
  sites.push_back({"query", &layer.query});
  return sites;
}

std::vector<ListedLayer> listed_layers(const Artifact& a) {
  std::vector<ListedLayer> all;
  for (const auto& [name, list] : {std::pair("layers[", &a.layers), {"mtp_layers[", &a.mtp_layers}})
    for (size_t i = 0; i < list->size(); ++i) all.push_back({(*list)[i], name + std::to_string(i) + "]"});
  return all;
}

std::string row_name(const Artifact& a, const ArtifactLayer& layer) {
  return a.model.is_mtp(layer.index) ? "mtp" : std::to_string(layer.index);
}

bool ArtifactQuantization::seeks_one() const { return kvcal::seeks_one(policy); }

bool converged(const Artifact& a) {
  return std::ranges::all_of(a.layers, [](const ArtifactLayer& layer) {
    return std::ranges::all_of(sites_of(layer), [](const NamedSite& s) { return s.site->growth.converged; });
  });
}

Json calibration_json(const Artifact& a) {
  Json out = to_json(a.calibration);
  out["converged"] = a.evidence.converged;
  if (a.evidence.says_beyond) out["coverage"] = coverage_json(a.evidence.beyond);
  out["sanity"] = json_or_null(a.evidence.sanity);
  return out;
}

Json to_json(const Artifact& a) {
  const auto layers_json = [&](const std::vector<ArtifactLayer>& layers) {
    Json list = Json::array();
    for (const ArtifactLayer& layer : layers) list.push_back(layer_json(layer, a.quantization.limits));
    return list;
  };
  Json out = {{"$schema", kArtifactSchemaFile},
              {"format", kArtifactFormat},
              {"version", a.state_layers.empty() ? kArtifactVersionWithoutStates : kArtifactVersion}};
  out["model_type"] = a.model_type;
  if (a.source_date_epoch) out["source_date_epoch"] = *a.source_date_epoch;
  out["model"] = to_json(a.model);
  out["quantization"] = quantization_json(a.quantization);
  out["layers"] = layers_json(a.layers);
  out["layers_without_kv"] = to_json(a.layers_without_kv);
  if (!a.state_layers.empty()) out["state_layers"] = states_json(a.state_layers);
  if (!a.mtp_layers.empty()) out["mtp_layers"] = layers_json(a.mtp_layers);
  if (!a.ranges_by.is_null()) out["ranges_by"] = a.ranges_by;
  out["calibration"] = calibration_json(a);
  if (a.kv_cache.empty())
    out["kv_cache_left_out"] = a.kv_cache_left_out;
  else
    out["kv_cache"] = kv_cache_json(a.kv_cache);
  return out;
}

std::string artifact_text(const Artifact& artifact) { return json_text(to_json(artifact)); }

}  // namespace kvcal
