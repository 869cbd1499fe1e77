// Files come from strangers: every member is looked up with its path, checked for type and range, and nothing is
// indexed before its size is known.
#include <cfloat>
#include <charconv>
#include <cmath>

#include "artifact/artifact.h"
#include "artifact/artifact_parts.h"
#include "artifact/json_object.h"
#include "base/number_text.h"
#include "stats/further_members.h"

namespace kvcal {
namespace {

// Far beyond any model, and small enough that a hostile index cannot make us allocate much.
constexpr int64_t kMaxLayers = 1 << 20;

float scale_from(const Json& value, const std::string& path) {
  const float number = float_from(value, path);
  if (!(number > 0) || !std::isnormal(number))
    fail(member_at(path) + " is " + shortest_float(number) + ", expected a positive normal float32");
  return number;
}

/// Names in a file become our values; an unknown one is an error with its path.
template <class F>
auto named(const Object& o, const char* key, F from_name) {
  const std::string name = o.string(key);
  return while_doing(o.where + key, [&] { return from_name(name); });
}

ArtifactError error_from(const Object& o) {
  const auto number = [&](const char* key) { return at_least_zero(o.at(key), o.where + key); };
  ArtifactError e;
  e.at_scale = number("at_scale");
  e.at_one = number("at_one");
  e.clipped_at_scale = number("clipped_at_scale");
  e.clipped_at_one = number("clipped_at_one");
  e.lost_at_scale = number("lost_at_scale");
  e.lost_at_one = number("lost_at_one");
  e.noise_at_scale = optional_float(o, "noise_at_scale", at_least_zero);
  e.noise_at_one = optional_float(o, "noise_at_one", at_least_zero);
  e.dominating_at_scale = optional_float(o, "dominating_at_scale", at_least_zero);
  return e;
}

/// Up to version 1.2 there was "check": rounding could be felt, and ruined nothing.
Fitness fitness_from(const Object& o) {
  return o.string("fp8") == "check" ? Fitness::Fine : named(o, "fp8", fitness_from_name);
}

DamageAtScale damage_from(const Object& o) {
  DamageAtScale d;
  const auto figure = [&](const char* name) -> std::optional<double> {
    const std::optional<float> value = optional_float(o, name, at_least_zero);
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  d.kl = figure("kl");
  d.kl_unseen = figure("kl_unseen");
  d.rel = figure("rel");
  d.noise = figure("noise");
  d.flushed_tokens = figure("flushed_tokens");
  d.on_stream = figure("on_stream");
  d.clips = o.boolean("clips");
  d.by = named(o, "by", basis_from_name);
  d.decided_by = named(o, "decided_by", figure_from_name);
  d.severity = static_cast<double>(at_least_zero(o.at("severity"), o.where + "severity"));
  d.fitness = fitness_from(o);
  return d;
}

Assessment assessment_from(const Object& o) {
  Assessment a{named(o, "scale", scale_need_from_name), fitness_from(o), damage_from(o.object("at_scale")),
               damage_from(o.object("at_one"))};
  if (a.fp8 != a.at_scale.fitness)
    fail(member_at(o.where + "fp8") + " is " + quoted(name_of(a.fp8)) + ", expected that of at_scale, " +
         quoted(name_of(a.at_scale.fitness)));
  return a;
}

/// Version 1.0 had one word, and a rule that is not used any more.
Assessment assessment_of_version_1_0(Verdict verdict) {
  Assessment a;
  a.scale = verdict == Verdict::Needed ? ScaleNeed::Needed : ScaleNeed::Any;
  a.fp8 = verdict == Verdict::Inadequate ? Fitness::Keep16 : Fitness::Fine;
  a.at_scale.fitness = a.fp8;
  return a;
}

ArtifactParts parts_from(const Object& o) {
  ArtifactParts p;
  p.absmax_latent = scale_from(o.at("absmax_latent"), o.where + "absmax_latent");
  p.absmax_rope = scale_from(o.at("absmax_rope"), o.where + "absmax_rope");
  p.error_latent = error_from(o.object("error_latent"));
  p.error_rope = error_from(o.object("error_rope"));
  return p;
}

/// Absent where there is none, and from files of earlier versions. Those whose absmax_per_head is 0.
std::vector<int> zero_heads_from(const Object& o, const std::vector<float>& absmax_per_head) {
  std::vector<int> heads;
  if (find_member(o.json, "zero_heads") == nullptr) return heads;
  for (const Json& value : o.array("zero_heads")) {
    const std::string path = o.where + "zero_heads[" + std::to_string(heads.size()) + "]";
    if (!value.is_number_integer()) fail(member_at(path) + " is " + value.type_name() + ", expected a head");
    const auto head = value.get<int64_t>();
    if (head < 0 || head >= static_cast<int64_t>(absmax_per_head.size()) ||
        absmax_per_head[static_cast<size_t>(head)] != 0 || (!heads.empty() && head <= heads.back()))
      fail(member_at(path) + " is " + value.dump() + ", expected heads whose absmax_per_head is 0, ascending");
    heads.push_back(static_cast<int>(head));
  }
  return heads;
}

/// Absent from files of earlier versions, and where the policy does not seek 1.0.
std::optional<std::vector<Departure>> departures_from(const Object& o) {
  if (find_member(o.json, "departs_from_one") == nullptr) return std::nullopt;
  std::vector<Departure> departures;
  for (const Json& value : o.array("departs_from_one")) {
    const std::string path = o.where + "departs_from_one[" + std::to_string(departures.size()) + "]";
    if (!value.is_string()) fail(member_at(path) + " is " + value.type_name() + ", expected a reason");
    departures.push_back(while_doing(member_at(path), [&] { return departure_from_name(value.get<std::string>()); }));
    if (departures.size() > 1 && departures.end()[-1] <= departures.end()[-2])
      fail(member_at(path) + " is " + value.dump() + ", expected each reason once, in the schema's order");
  }
  return departures;
}

ArtifactSite site_from(const Object& o, int64_t n_heads, bool has_parts = false) {
  ArtifactSite s;
  s.scale = scale_from(o.at("scale"), o.where + "scale");
  s.absmax = scale_from(o.at("absmax"), o.where + "absmax");
  if (has_parts) s.parts = parts_from(o);
  s.envelope = optional_float(o, "envelope", scale_from);
  if (find_member(o.json, "uses_envelope") != nullptr) s.uses_envelope = o.boolean("uses_envelope");
  s.observations = static_cast<uint64_t>(o.count("observations"));
  const Verdict verdict = named(o, "verdict", verdict_from_name);
  s.assessment = find_member(o.json, "assessment") != nullptr ? assessment_from(o.object("assessment"))
                                                              : assessment_of_version_1_0(verdict);
  if (s.verdict() != verdict)
    fail(member_at(o.where + "verdict") + " is " + quoted(name_of(verdict)) + ", expected " +
         quoted(name_of(s.verdict())) + " by the assessment");
  s.departs = departures_from(o);
  if (find_member(o.json, "scale_per_head") != nullptr) s.scale_per_head = floats(o, "scale_per_head", scale_from);
  s.absmax_per_head = floats(o, "absmax_per_head", at_least_zero);
  const auto n = static_cast<size_t>(n_heads);
  const auto check_size = [&](const char* key, size_t size) {
    if (size != n)
      fail(member_at(o.where + key) + " has " + std::to_string(size) + " numbers, expected " + std::to_string(n) +
           " (one per head)");
  };
  check_size("absmax_per_head", s.absmax_per_head.size());
  s.zero_heads = zero_heads_from(o, s.absmax_per_head);
  if (!s.scale_per_head.empty()) check_size("scale_per_head", s.scale_per_head.size());
  s.absmax_by_position = floats(o, "absmax_by_position", at_least_zero);
  s.error = error_from(o.object("error"));
  s.where = where_from(o.object("where"));
  s.growth = growth_from(o.object("growth"));
  return s;
}

/// Absent but with granularity channel.
std::vector<float> channel_scales_from(const Object& o, int64_t n_heads, int64_t head_dim) {
  if (find_member(o.json, "scale_per_channel") == nullptr) return {};
  std::vector<float> scales = floats(o, "scale_per_channel", scale_from);
  if (const auto n = static_cast<int64_t>(scales.size()); n_heads == 0 || n % n_heads != 0 || n / n_heads != head_dim)
    fail(member_at(o.where + "scale_per_channel") + " has " + std::to_string(n) + " numbers, expected " +
         std::to_string(n_heads) + " heads of " + std::to_string(head_dim));
  return scales;
}

ArtifactJoint joint_from(const Object& o) {
  ArtifactJoint j;
  j.scale = scale_from(o.at("scale"), o.where + "scale");
  j.key = named(o, "key", verdict_from_name);
  j.value = named(o, "value", verdict_from_name);
  j.loses_key = o.boolean("loses_key");
  j.loses_value = o.boolean("loses_value");
  j.lost_key = at_least_zero(o.at("lost_key"), o.where + "lost_key");
  j.lost_value = at_least_zero(o.at("lost_value"), o.where + "lost_value");
  j.noise = at_least_zero(o.at("noise"), o.where + "noise");
  if (named(o, "verdict", verdict_from_name) != j.verdict())
    fail(member_at(o.where + "verdict") + " is " + quoted(o.string("verdict")) +
         ", expected the worse of key and value, '" + std::string(name_of(j.verdict())) + "'");
  return j;
}

ArtifactLayer layer_from(const Object& o) {
  ArtifactLayer l;
  l.index = static_cast<int>(o.count("index", kMaxLayers));
  l.name = o.string("name");
  l.kind = o.string("kind");
  l.n_heads = o.count("n_heads");
  l.n_kv_heads = o.count("n_kv_heads");
  l.head_dim_k = o.count("head_dim_k");
  l.head_dim_v = o.count("head_dim_v");
  l.query = site_from(o.object("query"), l.n_heads);
  if (l.is_mla()) {
    l.latent = site_from(o.object("latent"), l.n_kv_heads, true);
    return l;
  }
  l.key = site_from(o.object("key"), l.n_kv_heads);
  l.key.scale_per_channel = channel_scales_from(o.object("key"), l.n_kv_heads, l.head_dim_k);
  l.value = site_from(o.object("value"), l.n_kv_heads);
  l.value.scale_per_channel = channel_scales_from(o.object("value"), l.n_kv_heads, l.head_dim_v);
  l.joint = joint_from(o.object("joint"));
  return l;
}

ArtifactQuantization quantization_from(const Object& o) {
  const auto number = [](const Object& in, const char* key) {
    const double value = get_number(in.json, key, in.where);
    if (!std::isfinite(value)) fail(member_at(in.where + key) + " is not finite");
    return value;
  };
  ArtifactQuantization q;
  q.dtype = o.string("dtype");
  q.max = number(o, "max");
  q.granularity = named(o, "granularity", granularity_from_name);
  if (const std::string convention = o.string("convention"); convention != "real = stored * scale")
    fail(member_at(o.where + "convention") + " is " + quoted(convention) + ", expected 'real = stored * scale'");
  q.policy = o.string("policy");
  if (find_member(o.json, "headroom") != nullptr) q.headroom = number(o, "headroom");
  if (find_member(o.json, "percentile") != nullptr) q.percentile = number(o, "percentile");
  q.max_model_len = o.count("max_model_len");
  const Object limits = o.object("limits");
  const auto limit = [&](const char* key, double& into) {
    if (find_member(limits.json, key) == nullptr) return;  // version 1.0
    const Object both = limits.object(key);
    into = number(both, "keep16");
    q.three_answers |= number(both, "check") < into;
  };
  limit("kl", q.limits.kl);
  limit("rel", q.limits.rel);
  limit("noise_nats", q.limits.noise);
  limit("flushed_tokens", q.limits.flushed_tokens);
  q.limits.growth = number(limits, "growth");
  if (find_member(limits.json, "dependence") != nullptr) q.limits.dependence = number(limits, "dependence");
  return q;
}

std::vector<ArtifactLayer> layers_from(const Json& list, const std::string& member) {
  std::vector<ArtifactLayer> layers;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = member + "[" + std::to_string(i) + "]";
    if (!list[i].is_object()) fail(member_at(path) + " is " + list[i].type_name() + ", expected an object");
    layers.push_back(layer_from({list[i], path + "."}));
    if (i > 0 && layers[i].index <= layers[i - 1].index)
      fail(member_at(path + ".index") + " is " + std::to_string(layers[i].index) +
           ", expected more than that of the layer before");
  }
  return layers;
}

std::vector<float> kv_cache_from(const Object& o) {
  if (const std::string dtype = o.string("dtype"); dtype != "float8_e4m3fn")
    fail(member_at(o.where + "dtype") + " is " + quoted(dtype) + ", expected 'float8_e4m3fn'");
  const Object rank = o.object("scaling_factor").object("0");
  std::vector<float> scales(rank.json.size(), 0.0F);
  for (const auto& [key, value] : rank.json.items()) {
    size_t layer = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (error != std::errc() || end != key.data() + key.size() || layer >= scales.size() || scales[layer] != 0)
      fail(member_at(rank.where + key) + " is not a layer, expected each of 0 to " + std::to_string(scales.size() - 1));
    scales[layer] = scale_from(value, rank.where + key);
  }
  if (scales.empty()) fail(member_at(o.where + "scaling_factor.0") + " has no layers");
  return scales;
}

PromptsBeyond beyond_from(const Object& o) {
  PromptsBeyond beyond;
  beyond.n_prompts = o.count("n_prompts");
  beyond.absmax = o.count("beyond_absmax");
  if (find_member(o.json, "beyond_headroom") != nullptr) beyond.headroom = o.count("beyond_headroom");
  beyond.further = further_members(o.json, {{"n_prompts", 0}, {"beyond_absmax", 0}, {"beyond_headroom", 0}});
  return beyond;
}

void read_calibration(const Object& o, Artifact& a) {
  ArtifactEvidence& evidence = a.evidence;
  evidence.converged = o.boolean("converged");
  evidence.says_beyond = o.json.contains("coverage");
  if (find_member(o.json, "coverage") != nullptr) evidence.beyond = beyond_from(o.object("coverage"));
  if (const Json* sanity = find_member(o.json, "sanity"))
    evidence.sanity = sanity_info_from(*sanity, o.where + "sanity.");
  a.calibration = calibration_info_from(further_members(o.json, {{"converged", 0}, {"coverage", 0}, {"sanity", 0}}));
}

void check_version(const Object& o) {
  if (const std::string format = o.string("format"); format != kArtifactFormat)
    fail("format is " + quoted(format) + ", expected '" + kArtifactFormat + "'");
  // A later minor version adds members that may be ignored (schemas/README.md).
  if (const std::string version = o.string("version"); !version.starts_with("1."))
    fail("version is " + quoted(version) + "; this program reads versions 1.x");
}

}  // namespace

Artifact artifact_from_json(const Json& json) {
  if (!json.is_object()) fail(std::string("the document is ") + json.type_name() + ", expected an object");
  const Object o = {json, ""};
  check_version(o);
  Artifact a;
  a.model_type = o.string("model_type");
  if (find_member(json, "source_date_epoch") != nullptr) a.source_date_epoch = o.count("source_date_epoch");
  a.model = model_info_from(o.object("model").json);
  a.quantization = quantization_from(o.object("quantization"));
  a.layers = layers_from(o.array("layers"), "layers");
  if (find_member(json, "state_layers") != nullptr) a.state_layers = states_from(o.array("state_layers"));
  if (find_member(json, "mtp_layers") != nullptr) a.mtp_layers = layers_from(o.array("mtp_layers"), "mtp_layers");
  a.layers_without_kv = layers_without_kv_from(o.array("layers_without_kv"));
  if (find_member(json, "ranges_by") != nullptr) a.ranges_by = o.object("ranges_by").json;
  read_calibration(o.object("calibration"), a);
  if (find_member(json, "kv_cache") != nullptr)
    a.kv_cache = kv_cache_from(o.object("kv_cache"));
  else
    a.kv_cache_left_out = o.string("kv_cache_left_out");
  return a;
}

}  // namespace kvcal
