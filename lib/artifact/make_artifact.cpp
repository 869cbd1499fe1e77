#include "artifact/make_artifact.h"

#include <algorithm>
#include <cassert>

#include "artifact/ranges_by.h"
#include "solve/error_model.h"
#include "solve/format.h"
#include "solve/policies.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

/// The largest of one figure over heads.
float largest(std::span<const HeadError> heads, double HeadError::*figure) {
  double worst = 0;
  for (const HeadError& head : heads) worst = std::max(worst, head.*figure);
  return static_cast<float>(worst);
}

ArtifactError error_of_site(const SolvedSite& solved, CacheSite site) {
  ArtifactError e;
  e.at_scale = largest(solved.at_scale, &HeadError::error);
  e.at_one = largest(solved.at_one, &HeadError::error);
  e.clipped_at_scale = largest(solved.at_scale, &HeadError::clipped);
  e.clipped_at_one = largest(solved.at_one, &HeadError::clipped);
  e.lost_at_scale = largest(solved.at_scale, &HeadError::lost);
  e.lost_at_one = largest(solved.at_one, &HeadError::lost);
  if (site != CacheSite::Key && site != CacheSite::Latent) return e;
  e.noise_at_scale = largest(solved.at_scale, &HeadError::noise);
  e.noise_at_one = largest(solved.at_one, &HeadError::noise);
  const auto noisiest = std::max_element(solved.at_scale.begin(), solved.at_scale.end(),
                                         [](const auto& a, const auto& b) { return a.noise < b.noise; });
  e.dominating_at_scale = static_cast<float>(noisiest->dominating);
  return e;
}

ArtifactWhere where_of(const SiteStatistics& site, const RunRecord& run) {
  const Provenance& w = largest_head(site).where;
  if (w.prompt < 0 || static_cast<size_t>(w.prompt) >= run.prompt_ids.size())
    fail("the statistics place a maximum in prompt " + std::to_string(w.prompt) + " of " +
         std::to_string(run.prompt_ids.size()));
  return {w.pass, run.prompt_ids[static_cast<size_t>(w.prompt)], w.token, w.position, w.head, w.channel};
}

std::optional<float> to_float(const std::optional<double>& value) {
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

ArtifactGrowth growth_from(const Growth& growth, const RunRecord& run) {
  ArtifactGrowth out;
  for (const auto& pass : growth.per_pass) out.per_pass.push_back(to_float(pass));
  out.last_quarter = to_float(growth.last_quarter);
  out.position = to_float(growth.position);
  if (const auto& d = growth.depends_on) out.depends_on = {run.prompt_ids.at(d->prompt), to_float(d->ratio)};
  if (const auto& d = growth.depends_on_tag) out.depends_on_tag = {d->tag, to_float(d->ratio)};
  if (const auto& c = growth.coverage)
    out.coverage = {static_cast<float>(c->beyond_absmax), to_float(c->beyond_headroom)};
  out.converged = growth.converged;
  return out;
}

/// Figures as the file holds them.
DamageAtScale as_stored(DamageAtScale damage) {
  for (std::optional<double>* figure :
       {&damage.kl, &damage.kl_unseen, &damage.rel, &damage.noise, &damage.flushed_tokens, &damage.on_stream})
    if (*figure) *figure = static_cast<double>(static_cast<float>(**figure));
  damage.severity = static_cast<double>(static_cast<float>(damage.severity));
  return damage;
}

Assessment as_stored(const Assessment& a) { return {a.scale, a.fp8, as_stored(a.at_scale), as_stored(a.at_one)}; }

ArtifactSite site_from(const SiteStatistics& site, CacheSite which, const SolvedSite& solved, const RunRecord& run) {
  ArtifactSite out;
  out.scale = solved.scale;
  out.departs = solved.departures;
  out.scale_per_head = solved.scale_per_head;
  out.scale_per_channel = solved.scale_per_channel;
  out.absmax = absmax_of(site);
  if (solved.envelope) out.envelope = scale_rounded_up(*solved.envelope);  // a bound stays one
  if (solved.envelope) out.uses_envelope = solved.provides_for_envelope;
  out.observations = site.n_tokens;
  for (const HeadStatistics& head : site.heads) out.absmax_per_head.push_back(magnitude_of(head.absmax));
  out.zero_heads = solved.zero_heads;
  out.assessment = as_stored(solved.assessment);
  out.error = error_of_site(solved, which);
  out.where = where_of(site, run);
  out.growth = growth_from(solved.growth, run);
  for (const uint16_t code : site.position_absmax) out.absmax_by_position.push_back(magnitude_of(code));
  return out;
}

ArtifactError error_of_part(const SolvedSite& row, size_t part) {
  SolvedSite alone;
  alone.at_scale = {row.at_scale[part]};
  alone.at_one = {row.at_one[part]};
  return error_of_site(alone, CacheSite::Query);  // without noise, which is of the whole row
}

/// The row is one head, whose parts have figures of their own.
ArtifactSite latent_from(const CacheStatistics& cache, const SolvedSite& solved, const RunRecord& run) {
  const SiteStatistics row = latent_row(cache);
  ArtifactSite out = site_from(row, CacheSite::Latent, solved, run);
  out.parts = {out.absmax_per_head[0], out.absmax_per_head[1], error_of_part(solved, 0), error_of_part(solved, 1)};
  out.absmax_per_head = {out.absmax};
  return out;
}

ArtifactJoint joint_from(const JointScale& joint) {
  ArtifactJoint out;
  out.scale = joint.scale;
  out.key = verdict_of(joint.key_assessment);
  out.value = verdict_of(joint.value_assessment);
  out.loses_key = joint.loses_key;
  out.loses_value = joint.loses_value;
  out.lost_key = largest(joint.key, &HeadError::lost);
  out.lost_value = largest(joint.value, &HeadError::lost);
  out.noise = largest(joint.key, &HeadError::noise);
  return out;
}

ArtifactLayer layer_from(const CacheStatistics& cache, const SolvedCache& solved, const RunRecord& run) {
  const KvLayout& layout = cache.layout;
  ArtifactLayer out;
  out.index = layout.layer;
  out.name = module_name(run.model->tensor_prefix, layout);
  out.kind = layout.kind;
  out.n_heads = layout.n_heads;
  out.n_kv_heads = layout.n_kv_heads;
  out.head_dim_k = layout.head_dim_k;
  out.head_dim_v = layout.head_dim_v;
  out.query = site_from(cache.at(CacheSite::Query), CacheSite::Query, solved.query, run);
  if (layout.is_mla()) {
    out.latent = latent_from(cache, solved.latent, run);
    return out;
  }
  out.key = site_from(cache.at(CacheSite::Key), CacheSite::Key, solved.key, run);
  out.value = site_from(cache.at(CacheSite::Value), CacheSite::Value, solved.value, run);
  out.joint = joint_from(solved.joint);
  return out;
}

ArtifactState state_from(const StateStatistics& state, const RunRecord& run, const SolveOptions& options) {
  const StateLayout& layout = state.layout;
  const SiteStatistics& counts = state.counts;
  ArtifactState out;
  out.index = layout.layer;
  out.kind = layout.kind;
  out.heads = layout.heads;
  out.keys = layout.keys;
  out.values = layout.values;
  out.observations = counts.n_tokens;
  out.absmax = absmax_of(counts);
  for (const HeadStatistics& head : counts.heads) out.absmax_per_head.push_back(magnitude_of(head.absmax));
  for (const uint16_t code : counts.position_absmax) out.absmax_by_position.push_back(magnitude_of(code));
  const NumberFormat& e4m3 = number_format("fp8_e4m3");
  const float range = out.absmax > 0 ? scale_rounded_up(static_cast<double>(out.absmax) / e4m3.max) : 1.0F;
  for (const HeadStatistics& head : counts.heads) {
    const HeadError at_one = error_of(head.histogram, e4m3, 1.0F), at_range = error_of(head.histogram, e4m3, range);
    const auto raise = [](float& to, double from) { to = std::max(to, static_cast<float>(from)); };
    raise(out.error.at_one, at_one.error);
    raise(out.error.clipped_at_one, at_one.clipped);
    raise(out.error.lost_at_one, at_one.lost);
    raise(out.error.at_range, at_range.error);
    raise(out.error.lost_at_range, at_range.lost);
  }
  out.where = where_of(counts, run);
  out.growth = growth_from(growth_of(counts, run, options.limits, std::nullopt), run);
  return out;
}

/// Why the block that SGLang reads cannot be offered, or "".
std::string reason_against_kv_cache(const Artifact& a) {
  if (a.quantization.dtype != "fp8_e4m3")
    return "the layout knows float8_e4m3fn only, these scales are for " + a.quantization.dtype;
  if (a.model_type.empty()) return "config.json has no model_type, which the layout requires";
  if (std::ranges::any_of(a.layers, &ArtifactLayer::is_mla))
    return "servers that read the layout store an MLA cache without dividing by its scale";
  std::string sites;
  for (const ArtifactLayer& layer : a.layers)
    for (const auto& [loses, site] : {std::pair(layer.joint.loses_key, "key"), {layer.joint.loses_value, "value"}})
      if (loses) sites += (sites.empty() ? "layer " : ", layer ") + std::to_string(layer.index) + " " + site;
  if (sites.empty()) return "";
  return "the layout has one scale per layer for key and value, and with the larger of the two these would be lost: " +
         sites;
}

void add_kv_cache(Artifact& a) {
  a.kv_cache_left_out = reason_against_kv_cache(a);
  if (!a.kv_cache_left_out.empty()) return;
  a.kv_cache.assign(static_cast<size_t>(a.model.n_layers), 1.0F);
  for (const ArtifactLayer& layer : a.layers) a.kv_cache[static_cast<size_t>(layer.index)] = layer.joint.scale;
  const auto n_layers = static_cast<int64_t>(a.kv_cache.size());
  for (const LayerInfo& layer : a.layers_without_kv) {  // who reads another layer's rows reads them with its scale
    const int64_t owner = layer.shares_kv_with.value_or(-1), index = layer.index;
    if (owner >= 0 && owner < n_layers && index >= 0 && index < n_layers)
      a.kv_cache[static_cast<size_t>(index)] = a.kv_cache[static_cast<size_t>(owner)];
  }
}

}  // namespace

ArtifactQuantization quantization_of(const SolveOptions& options, int64_t max_model_len) {
  const PolicyEntry& policy = policy_of(options);
  ArtifactQuantization q;
  q.dtype = options.format;
  q.max = number_format(options.format).max;
  q.granularity = options.granularity;
  q.policy = policy.name;
  if (policy.uses_headroom) q.headroom = headroom_of(options);
  if (policy.name == "percentile") q.percentile = options.percentile;
  q.max_model_len = max_model_len;
  q.limits = options.limits;
  return q;
}

Artifact make_artifact(const Statistics& statistics, const Solution& solution) {
  const RunRecord& run = statistics.run;
  assert(run.model && run.layers_without_kv && run.calibration);  // or there was no solution
  assert(statistics.caches.size() == solution.caches.size());
  Artifact a;
  a.model = *run.model;
  a.model_type = a.model.model_type;
  a.quantization = quantization_of(solution.options, solution.max_model_len);
  for (size_t i = 0; i < statistics.caches.size(); ++i) {
    auto& layers = a.model.is_mtp(statistics.caches[i].layout.layer) ? a.mtp_layers : a.layers;
    layers.push_back(layer_from(statistics.caches[i], solution.caches[i], run));
  }
  for (const StateStatistics& state : statistics.states)
    a.state_layers.push_back(state_from(state, run, solution.options));
  a.layers_without_kv = *run.layers_without_kv;
  a.ranges_by = ranges_by(statistics);
  a.calibration = *run.calibration;
  a.evidence.converged = converged(a);
  a.evidence.beyond = solution.beyond;
  a.evidence.sanity = run.sanity;
  add_kv_cache(a);
  return a;
}

}  // namespace kvcal
