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

/// What the scale of one file does to what the other has measured, where the other's own scale is better.
std::string effect_of(const char* one, double overshoot, const char* other, double own, const std::string& dtype) {
  const double limit = dtype.starts_with("fp8") ? 16 : 2;
  if (overshoot < 1 - kSlack && own > overshoot * (1 + kSlack))
    return std::string(one) + " clips what " + other + " measured";
  if (overshoot > limit * (1 + kSlack) && own < overshoot / (1 + kSlack))
    return std::string(one) + " is " + times(overshoot) + " times too large for " + other;
  return "";
}

/// The range of a scale in units of what was measured; 0 where that is a head of zeros, which no scale harms.
double overshoot(float scale, const ArtifactQuantization& q, float absmax) {
  return absmax > 0 ? scale * q.max / absmax : 0;
}

SiteDifference compare_scales(SiteDifference d, const ArtifactQuantization& qa, const ArtifactQuantization& qb) {
  d.overshoot_a = overshoot(d.scale_a, qa, d.absmax_b);
  d.overshoot_b = overshoot(d.scale_b, qb, d.absmax_a);
  d.effect = effect_of("B", d.overshoot_b, "A", overshoot(d.scale_a, qa, d.absmax_a), qb.dtype);
  const std::string reverse = effect_of("A", d.overshoot_a, "B", overshoot(d.scale_b, qb, d.absmax_b), qa.dtype);
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

std::string text_of(const Json& block, const char* key) {
  const Json* member = block.is_object() ? find_member(block, key) : nullptr;
  if (!member) return "none";
  return member->is_string() ? member->get<std::string>() : member->dump();
}

std::string number(double x) { return Json(x).dump(); }
std::string number(const std::optional<double>& x) { return x ? number(*x) : "none"; }

void compare_members(const Artifact& a, const Artifact& b, std::vector<MemberDifference>& out) {
  const auto add = [&](const std::string& member, const std::string& x, const std::string& y, bool decides) {
    if (x != y) out.push_back({member, x, y, decides});
  };
  add("model_type", a.model_type, b.model_type, true);
  for (const char* key : {"architecture", "n_layers", "config_sha256", "weights_fingerprint"})
    add(std::string("model.") + key, text_of(a.model, key), text_of(b.model, key), true);
  const ArtifactQuantization &p = a.quantization, &q = b.quantization;
  add("quantization.dtype", p.dtype, q.dtype, true);
  add("quantization.granularity", std::string(name_of(p.granularity)), std::string(name_of(q.granularity)), true);
  add("quantization.policy", p.policy, q.policy, false);
  add("quantization.headroom", number(p.headroom), number(q.headroom), false);
  add("quantization.percentile", number(p.percentile), number(q.percentile), false);
  add("quantization.max_model_len", std::to_string(p.max_model_len), std::to_string(q.max_model_len), false);
  for (const char* key : {"prompts_sha256", "plan_sha256", "n_prompts", "n_tokens", "longest", "passes", "precision",
                          "activation_quant", "isa", "tool_version", "converged"})
    add(std::string("calibration.") + key, text_of(a.calibration, key), text_of(b.calibration, key), false);
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
  std::map<int, const ArtifactLayer*> others;
  for (const ArtifactLayer& l : b.layers) others[l.index] = &l;
  for (const ArtifactLayer& l : a.layers) {
    const auto other = others.find(l.index);
    if (other == others.end()) {
      d.members.push_back({"layer " + std::to_string(l.index), "there", "missing", true});
      continue;
    }
    compare_layers(l, *other->second, a.quantization, b.quantization, d);
    others.erase(other);
  }
  for (const auto& [index, layer] : others)
    d.members.push_back({"layer " + std::to_string(index), "missing", "there", true});
  return d;
}

}  // namespace kvcal
