// Does each scale follow from what was measured? Where it does not, the likeliest cause is named instead.
#include <algorithm>
#include <array>
#include <cmath>

#include "check/artifact_checks.h"
#include "solve/format.h"

namespace kvcal {

int convention_of(double divisor) {
  constexpr std::array kKnown = {448, 240, 224, 200, 100, 127, 6, 2688};
  for (const int known : kKnown)
    if (std::fabs(divisor / known - 1) < 0.005) return known;
  return 0;
}

const char* cause_of_misfit(double scale, double absmax, double max) {
  const double inverted = std::fabs(std::log2(scale * absmax / max)), raw = std::fabs(std::log2(scale / absmax));
  if (raw < 1 && raw < inverted && absmax > 8) return "S10";
  if (inverted < 1.5 && inverted < std::fabs(std::log2(scale * max / absmax)) - 2) return "S09";
  return absmax > max * scale * (1 + kSlack) ? "S14" : nullptr;
}

namespace {

struct Bounds {
  double least = 0, most = 0;
  bool powers_of_two = false;  // none but these
  bool hold(double scale) const {
    int exponent = 0;
    return scale >= least * (1 - kSlack) && scale <= most * (1 + kSlack) &&
           (!powers_of_two || std::frexp(scale, &exponent) == 0.5);
  }
};

/// What the policy gives for a range; pow2 rounds up to a power of two, which at most doubles it, and from there goes
/// up to 1.0 where that loses nothing. A policy that chooses what to clip is bound by the candidates it has: 16 times
/// below and above.
Bounds bounds_of(double range, const ArtifactQuantization& q) {
  if (!q.headroom) return {range / q.max / 16, range / q.max * 16};
  const double tight = range * *q.headroom / q.max;
  if (q.seeks_one()) return {tight, std::max(1.0, 2 * tight), true};
  return {tight, tight};
}

double range_of(const ArtifactSite& site) {
  return site.uses_envelope.value_or(false) ? std::max(site.absmax, site.envelope.value_or(0)) : site.absmax;
}

bool fits(const ArtifactSite& site, const ArtifactQuantization& q) {
  return bounds_of(range_of(site), q).hold(site.scale);
}

void report_misfit(double scale, double absmax, const Bounds& bounds, const ArtifactQuantization& q,
                   const std::string& path, Report& report) {
  const int known = convention_of(absmax / scale);
  const char* cause = cause_of_misfit(scale, absmax, q.max);
  const std::string rule = cause ? cause : q.dtype == "fp8_e4m3fnuz" && known == 224 ? "S12" : "R01";
  report.add(rule, path, std::string(rule_named(rule).meaning),
             number_text(bounds.least) + (bounds.most > bounds.least ? " to " + number_text(bounds.most) : ""),
             number_text(scale) + " for a largest magnitude of " + number_text(absmax));
  if (known != 0 && rule == "R01")
    report.add("S11", path, "largest magnitude / scale", number_text(absmax / bounds.least), std::to_string(known));
}

/// A key's envelope is known for the whole site only.
Bounds bounds_of_head(const ArtifactSite& site, size_t head, const ArtifactQuantization& q) {
  Bounds bounds = bounds_of(site.absmax_per_head[head], q);
  if (site.uses_envelope.value_or(false)) bounds.most = std::max(bounds.most, static_cast<double>(site.scale));
  return bounds;
}

/// Scales per head: each fits its own head.
void check_heads(const ArtifactSite& site, const ArtifactQuantization& q, const std::string& path, Report& report) {
  for (size_t h = 0; h < site.scale_per_head.size(); ++h) {
    const Bounds bounds = bounds_of_head(site, h, q);
    if (!bounds.hold(site.scale_per_head[h]))
      report_misfit(site.scale_per_head[h], site.absmax_per_head[h], bounds, q,
                    path + ".scale_per_head[" + std::to_string(h) + "]", report);
  }
}

/// Scales per channel: the largest of a head fits it. 1 is also that of a channel that is zero throughout.
void check_channels(const ArtifactSite& site, const ArtifactQuantization& q, const std::string& path, Report& report) {
  const size_t width = site.scale_per_channel.size() / site.absmax_per_head.size();
  for (size_t h = 0; h < site.absmax_per_head.size() && width > 0; ++h) {
    if (site.absmax_per_head[h] == 0) continue;
    const Bounds bounds = bounds_of_head(site, h, q);
    bool has_one = false;
    size_t largest = h * width;
    for (size_t c = h * width; c < (h + 1) * width; ++c) {
      const std::vector<float>& scales = site.scale_per_channel;
      has_one |= scales[c] == 1;
      if (scales[c] != 1 && (scales[largest] == 1 || scales[c] > scales[largest])) largest = c;
    }
    if (const float scale = site.scale_per_channel[largest]; !bounds.hold(scale) && !(has_one && bounds.hold(1)))
      report_misfit(scale, site.absmax_per_head[h], bounds, q,
                    path + ".scale_per_channel[" + std::to_string(largest) + "]", report);
  }
}

/// Scales above 1.0 are there for the range, those below for small values.
void check_departures(const ArtifactSite& site, const std::string& path, Report& report) {
  if (!site.departs) return;
  const std::vector<float> scales = site.scale_per_channel.empty() ? site.scales() : std::vector{site.scale};
  const auto says = [&](bool small) {
    return std::ranges::any_of(*site.departs, [&](Departure d) { return (d == Departure::SmallValues) == small; });
  };
  const bool above = std::ranges::any_of(scales, [](float x) { return x > 1; }),
             below = std::ranges::any_of(scales, [](float x) { return x < 1; });
  if (says(false) != above || says(true) != below)
    report.add("R14", path + ".departs_from_one", "the reasons for scales that are not 1.0",
               std::string(above ? "range" : "") + (above && below ? " and " : "") + (below ? "small values" : "") +
                   (above || below ? "" : "none"),
               std::to_string(site.departs->size()) + " reason(s)");
}

void check_site(const ArtifactSite& site, const ArtifactQuantization& q, const std::string& path, Report& report) {
  if (report.has_below(path + ".absmax") || report.has_below(path + ".envelope")) return;
  if (!fits(site, q))
    report_misfit(site.scale, site.absmax, bounds_of(range_of(site), q), q, path + ".scale", report);
  else if (q.headroom && q.dtype.starts_with("fp8") && site.absmax > kMostInUse * q.max * site.scale)
    report.add("S15", path + ".scale", "the share of the range in use", "at most " + number_text(kMostInUse),
               number_text(site.absmax / (q.max * site.scale)));
  check_heads(site, q, path, report);
  check_channels(site, q, path, report);
  check_departures(site, path, report);
}

/// Key and value would both fit much better with each other's scale.
bool swapped(const ArtifactLayer& l, const ArtifactQuantization& q) {
  const auto off = [&](const ArtifactSite& site, double scale) {
    return std::fabs(std::log2(q.max * scale / site.absmax));
  };
  return !fits(l.key, q) && !fits(l.value, q) &&
         off(l.key, l.key.scale) + off(l.value, l.value.scale) >=
             off(l.key, l.value.scale) + off(l.value, l.key.scale) + 2;
}

void check_layer(const ArtifactLayer& l, const ArtifactQuantization& q, const std::string& path, Report& report) {
  if (l.is_mla()) {
    for (const NamedSite& s : sites_of(l)) check_site(*s.site, q, path + "." + s.name, report);
    return;
  }
  if (swapped(l, q)) {
    report.add("S13", path, "the scales of key and value", "each matching its own largest magnitude",
               number_text(l.key.scale) + " and " + number_text(l.value.scale));
  } else {
    check_site(l.key, q, path + ".key", report);
    check_site(l.value, q, path + ".value", report);
  }
  check_site(l.query, q, path + ".query", report);
  if (report.has_below(path + ".key.scale") || report.has_below(path + ".value.scale") || swapped(l, q)) return;
  if (const float larger = std::max(l.key.scale, l.value.scale); l.joint.scale != larger)
    report.add("R08", path + ".joint.scale", "the joint scale", number_text(larger), number_text(l.joint.scale));
}

/// pow2 says so itself where 1.0 is as good as any.
bool all_one(const Artifact& a) {
  return !a.quantization.seeks_one() && std::ranges::all_of(a.layers, [](const ArtifactLayer& l) {
    return std::ranges::all_of(cached_sites(l), [](const NamedSite& s) { return s.site->scale == 1; });
  });
}

}  // namespace

void check_scales(const Artifact& a, Report& report) {
  report.evaluated({"R01", "R07", "R08", "R14", "S08", "S09", "S10", "S11", "S12", "S13", "S14", "S15"});
  if (const double max = number_format(a.quantization.dtype).max; a.quantization.max != max)
    return report.add("R07", "quantization.max", "the largest magnitude of " + a.quantization.dtype, number_text(max),
                      number_text(a.quantization.max));
  for (const auto& [layer, path] : listed_layers(a)) check_layer(layer, a.quantization, path, report);
  if (all_one(a)) report.add("S08", "layers", "the scales of keys and values", "measured ones", "1.0 everywhere");
}

}  // namespace kvcal
