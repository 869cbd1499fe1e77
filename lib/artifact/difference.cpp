#include "artifact/difference.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

namespace kvcal {
namespace {

constexpr double kSlack = 1e-6;  // scales are rounded up to float32

std::string times(double factor) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", factor);
  return text;
}

/// A scale, and what it was made from.
struct Measured {
  const char* file;
  float scale = 0, absmax = 0;
  const ArtifactQuantization& q;
};

/// The range of a scale in units of what was measured; 0 where that is a head of zeros, which no scale harms.
double overshoot(const Measured& scale, const Measured& of) {
  return of.absmax > 0 ? scale.scale * scale.q.max / of.absmax : 0;
}

/// pow2 goes up to 1.0 while nothing is lost of what it was made from, hence of what is as large.
bool loses_nothing(const Measured& one, const Measured& other) {
  constexpr float kAsLarge = 2;
  return one.q.seeks_one() && one.scale <= 1 && one.absmax <= kAsLarge * other.absmax;
}

/// What the scale of one file does to what the other has measured, where the other's own scale is better.
std::string effect_of(const Measured& one, const Measured& other) {
  const double limit = one.q.dtype.starts_with("fp8") ? 16 : 2, range = overshoot(one, other),
               own = overshoot(other, other);
  if (range < 1 - kSlack && own > range * (1 + kSlack))
    return std::string(one.file) + " clips what " + other.file + " measured";
  if (range > limit * (1 + kSlack) && own < range / (1 + kSlack) && !loses_nothing(one, other))
    return std::string(one.file) + " is " + times(range) + " times too large for " + other.file;
  return "";
}

SiteDifference compare_scales(SiteDifference d, const ArtifactQuantization& qa, const ArtifactQuantization& qb) {
  const Measured a = {"A", d.scale_a, d.absmax_a, qa}, b = {"B", d.scale_b, d.absmax_b, qb};
  d.overshoot_a = overshoot(a, b);
  d.overshoot_b = overshoot(b, a);
  d.effect = effect_of(b, a);
  const std::string reverse = effect_of(a, b);
  if (!reverse.empty()) d.effect += (d.effect.empty() ? "" : ", ") + reverse;
  return d;
}

SiteDifference compare_sites(int layer, const char* name, const ArtifactSite& a, const ArtifactSite& b,
                             const ArtifactQuantization& qa, const ArtifactQuantization& qb) {
  SiteDifference d = {layer, name, -1, a.scale, b.scale, a.absmax, b.absmax, a.assessment, b.assessment, 0, 0, ""};
  SiteDifference worst = compare_scales(d, qa, qb);
  const size_t n = std::min(a.scale_per_head.size(), b.scale_per_head.size());
  for (size_t h = 0; h < n; ++h) {
    if (a.absmax_per_head[h] == 0 && b.absmax_per_head[h] == 0) continue;
    d.head = static_cast<int>(h);
    d.scale_a = a.scale_per_head[h];
    d.scale_b = b.scale_per_head[h];
    d.absmax_a = a.absmax_per_head[h];
    d.absmax_b = b.absmax_per_head[h];
    const SiteDifference head = compare_scales(d, qa, qb);
    const auto weight = [](const SiteDifference& s) { return std::pair(!s.effect.empty(), s.change()); };
    if (worst.head < 0 || weight(head) > weight(worst)) worst = head;
  }
  return worst;
}

// What was fed, as text.
using Fed = const CalibrationInfo&;
constexpr std::pair<const char*, std::string (*)(Fed)> kFed[] = {
    {"prompts_sha256", [](Fed c) { return c.prompts_sha256; }},
    {"plan_sha256", [](Fed c) { return c.plan_sha256; }},
    {"n_prompts", [](Fed c) { return std::to_string(c.n_prompts); }},
    {"n_tokens", [](Fed c) { return std::to_string(c.n_tokens); }},
    {"longest", [](Fed c) { return std::to_string(c.longest); }},
    {"passes", [](Fed c) { return std::to_string(c.passes); }},
    {"precision", [](Fed c) { return c.precision; }},
    {"activation_quant", [](Fed c) { return c.activation_quant.empty() ? "none" : c.activation_quant; }},
    {"isa", [](Fed c) { return c.isa; }},
    {"tool_version", [](Fed c) { return c.tool_version; }},
};

std::string yes_or_no(bool x) { return x ? "true" : "false"; }
std::string number(double x) { return Json(x).dump(); }
std::string number(const std::optional<double>& x) { return x ? number(*x) : "none"; }

void compare_members(const Artifact& a, const Artifact& b, std::vector<MemberDifference>& out) {
  const auto add = [&](const std::string& member, const std::string& x, const std::string& y, bool decides) {
    if (x != y) out.push_back({member, x, y, decides});
  };
  add("model_type", a.model_type, b.model_type, true);
  const ModelInfo &m = a.model, &n = b.model;
  add("model.architecture", m.architecture, n.architecture, true);
  add("model.n_layers", std::to_string(m.n_layers), std::to_string(n.n_layers), true);
  add("model.config_sha256", m.config_sha256, n.config_sha256, true);
  add("model.weights_fingerprint", m.weights_fingerprint, n.weights_fingerprint, true);
  const ArtifactQuantization &p = a.quantization, &q = b.quantization;
  add("quantization.dtype", p.dtype, q.dtype, true);
  add("quantization.granularity", std::string(name_of(p.granularity)), std::string(name_of(q.granularity)), true);
  add("quantization.policy", p.policy, q.policy, false);
  add("quantization.headroom", number(p.headroom), number(q.headroom), false);
  add("quantization.percentile", number(p.percentile), number(q.percentile), false);
  add("quantization.max_model_len", std::to_string(p.max_model_len), std::to_string(q.max_model_len), false);
  for (const auto& [key, text] : kFed)
    add(std::string("calibration.") + key, text(a.calibration), text(b.calibration), false);
  add("calibration.converged", yes_or_no(a.evidence.converged), yes_or_no(b.evidence.converged), false);
  add("kv_cache", a.kv_cache.empty() ? "left out" : "present", b.kv_cache.empty() ? "left out" : "present", true);
}

void compare_layers(const ArtifactLayer& a, const ArtifactLayer& b, const ArtifactQuantization& qa,
                    const ArtifactQuantization& qb, ArtifactDifference& d) {
  if (a.is_mla() != b.is_mla()) {
    d.members.push_back({"layer " + std::to_string(a.index) + " kind", a.kind, b.kind, true});
    return;
  }
  const std::vector<NamedSite> in_a = sites_of(a), in_b = sites_of(b);
  for (size_t s = 0; s < in_a.size(); ++s)
    d.sites.push_back(compare_sites(a.index, in_a[s].name, *in_a[s].site, *in_b[s].site, qa, qb));
}

std::map<int, const ArtifactLayer*> by_index(const Artifact& a) {
  std::map<int, const ArtifactLayer*> layers;
  for (const ListedLayer& l : listed_layers(a)) layers[l.layer.index] = &l.layer;
  return layers;
}

}  // namespace

double SiteDifference::change() const { return std::fabs(static_cast<double>(scale_b) / scale_a - 1); }

bool SiteDifference::other_answer() const {
  return assessment_a.scale != assessment_b.scale || assessment_a.fp8 != assessment_b.fp8;
}

bool ArtifactDifference::within(double tolerance) const {
  return std::none_of(members.begin(), members.end(), [](const MemberDifference& m) { return m.decides; }) &&
         std::none_of(sites.begin(), sites.end(), [&](const SiteDifference& s) {
           return s.change() > tolerance || !s.effect.empty() || s.other_answer();
         });
}

ArtifactDifference compare(const Artifact& a, const Artifact& b) {
  ArtifactDifference d;
  compare_members(a, b, d.members);
  const std::map<int, const ArtifactLayer*> mine = by_index(a);
  std::map<int, const ArtifactLayer*> others = by_index(b);
  for (const auto& [index, layer] : mine) {
    const auto other = others.find(index);
    if (other == others.end()) {
      d.members.push_back({"layer " + std::to_string(index), "there", "missing", true});
      continue;
    }
    compare_layers(*layer, *other->second, a.quantization, b.quantization, d);
    others.erase(other);
  }
  for (const auto& [index, layer] : others)
    d.members.push_back({"layer " + std::to_string(index), "missing", "there", true});
  return d;
}

}  // namespace kvcal
