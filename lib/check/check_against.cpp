// The scales of a checkpoint against what was measured: too small by how much, how many values are clipped.
#include <algorithm>
#include <cmath>
#include <functional>

#include "artifact/delivery.h"
#include "artifact/nvfp4_scale.h"
#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "servers/kv_declaration.h"
#include "solve/format.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;

constexpr double kBf16 = 1.0 / 256;  // one rounding of a scale to bf16

struct Measured {
  const ArtifactSite* site = nullptr;
  const SiteStatistics* statistics = nullptr;  // null without a statistics file
};

std::string times(double factor) { return number_text(std::round(factor * 100) / 100) + "x"; }

/// Share of the values, zeros among them or not, whose magnitude `is_counted`, over all heads.
double share_of(const SiteStatistics& s, bool with_zeros, const std::function<bool(double)>& is_counted) {
  uint64_t counted = 0, all = 0;
  for (const HeadStatistics& head : s.heads) {
    all += head.histogram.observations() - (with_zeros ? 0 : head.histogram.zeros);
    for (const auto& [code, n] : head.histogram.counts)
      if (is_counted(static_cast<double>(magnitude_of(code)))) counted += n;
  }
  return all ? static_cast<double>(counted) / static_cast<double>(all) : 0;
}

/// Of producers that measured one part of what the scale is for: their scale is exactly that part's, and clips the
/// rest.
bool is_tight(double scale, double absmax, double max) { return std::fabs(max * scale / absmax - 1) < 1.5 * kBf16; }

/// The scale is the tight one of some rank's heads, of 2, 4, 8, ... ranks that share them evenly.
bool is_of_one_rank(double scale, const std::vector<float>& heads, double max) {
  for (size_t ranks = 2; ranks <= heads.size(); ranks *= 2) {
    if (heads.size() % ranks != 0) return false;
    const auto n = static_cast<std::ptrdiff_t>(heads.size() / ranks);
    for (auto first = heads.begin(); first != heads.end(); first += n)
      if (is_tight(scale, *std::max_element(first, first + n), max)) return true;
  }
  return false;
}

class Comparison {
 public:
  Comparison(const FolderUnderTest& f, const Reference& r, Report& report)
      : f_(f),
        r_(r),
        max_(r.artifact.quantization.max),
        report_(report),
        judges_absent_(is_judged_at_one(f, r) && f.stored.unlisted.empty() && !f.stored.any_of_caches()) {}

  void layer(const ArtifactLayer& l, const KvLayout& cache) {
    const StoredScale *key = only(cache, Site::Key), *value = only(cache, Site::Value);
    if (const StoredScale* both = only(cache, Site::KeyAndValue)) key = value = both;
    n_sites_ += cached_sites(l).size();
    if (judges_absent_) return absent(l, cache);
    if (l.is_mla()) {
      if (key) site(*key, measured(l.latent, cache, CacheSite::Latent));
      return;
    }
    if (key && value && key != value && swapped(*key, *value, l)) {
      report_.add({"S13", key->attention, "the scales of key and value", "each matching its own largest magnitude",
                   number_text(key->values[0]) + " and " + number_text(value->values[0]), 0, f_.path_of(key->file)});
      return;
    }
    if (key) site(*key, measured(l.key, cache, CacheSite::Key), format_of(*key, false));
    if (value) site(*value, measured(l.value, cache, CacheSite::Value), format_of(*value, true));
  }

  /// Every site of the layers, FP8 and in use.
  bool all_at_one() const { return n_sites_ > 0 && n_at_one_ == n_sites_; }

 private:
  std::string format_of(const StoredScale& s, bool is_value) const {
    return cache_format(f_.stored.declaration, s.attention, is_value);
  }

  /// A positive scale, or one per KV head.
  const StoredScale* only(const KvLayout& cache, Site site) const {
    const auto found = f_.stored.of(cache.cache, site);
    if (found.size() != 1 || found[0]->values.empty()) return nullptr;
    const auto n = static_cast<int64_t>(found[0]->values.size());
    const bool sound = (n == 1 || n == cache.n_kv_heads) &&
                       std::ranges::all_of(found[0]->values, [](float x) { return std::isfinite(x) && x > 0; });
    return sound ? found[0] : nullptr;
  }

  Measured measured(const ArtifactSite& site, const KvLayout& cache, CacheSite kind) const {
    if (!r_.statistics) return {&site, nullptr};
    for (const CacheStatistics& c : r_.statistics->caches)
      if (c.layout.layer == cache.layer) return {&site, &c.at(kind)};
    return {&site, nullptr};
  }

  bool swapped(const StoredScale& key, const StoredScale& value, const ArtifactLayer& l) const {
    if (key.values.size() != 1 || value.values.size() != 1) return false;
    const auto off = [&](const ArtifactSite& s, double scale) {
      return std::fabs(std::log2(max_ * scale / static_cast<double>(s.absmax)));
    };
    const double k = key.values[0], v = value.values[0];
    return off(l.key, k) + off(l.value, v) >= off(l.key, v) + off(l.value, k) + 2;
  }

  /// A scale of block scales, whose largest is 448 and that of their values 6.
  void global(const StoredScale& s, const ArtifactSite& site) {
    const double scale = s.values[0], absmax = site.absmax;
    const double expected = static_cast<double>(nvfp4_global_scale(site.absmax)), ratio = scale / expected;
    if (absmax > 6 * max_ * scale * (1 + kSlack))
      add("S14", s, "at least " + number_text(absmax / (6 * max_)), number_text(scale) + " in NVFP4");
    else if (!r_.statistics && (ratio < 1 - 1e-6 || ratio > 1 + 1e-6))
      add("V06", s, number_text(expected) + " in NVFP4", number_text(scale) + " (" + times(ratio) + ")");
  }

  void site(const StoredScale& s, const Measured& m, const std::string& format = "fp8") {
    if (format == "nvfp4" && s.values.size() == 1) return global(s, *m.site);
    if (m.statistics && format == "fp8" && std::ranges::all_of(s.values, [](float x) { return x == 1; }))
      return at_one(s.tensor, f_.path_of(s.file), m);
    for (size_t h = 0; h < s.values.size(); ++h) {
      const bool per_head = s.values.size() > 1 && m.site->absmax_per_head.size() == s.values.size();
      const double absmax = per_head ? m.site->absmax_per_head[h] : m.site->absmax;
      if (value(s, s.values[h], absmax, m)) return;
    }
    different(s, *m.site);
  }

  /// Of a folder without scales.
  void absent(const ArtifactLayer& l, const KvLayout& cache) {
    const std::string module = module_name(f_.stored.tensor_prefix, cache), file = f_.path_of("config.json");
    for (const NamedSite& s : cached_sites(l)) {
      const CacheSite kind = l.is_mla() ? CacheSite::Latent : s.site == &l.value ? CacheSite::Value : CacheSite::Key;
      at_one(module + " " + s.name, file, measured(*s.site, cache, kind));
    }
  }

  /// What 1.0 does was measured: nothing is guessed from the number.
  void at_one(const std::string& place, const std::string& file, const Measured& m) {
    ++n_at_one_;
    const std::string rule(fault_at_one(*m.site, max_));
    if (rule.empty() || (rule == "S16" && m.site->scale == 1)) return;  // that is said of the statistics themselves
    const bool by_range = rule == "S14" || rule == "S15";
    report_.add({rule, place, std::string(rule_named(rule).meaning),
                 by_range ? "at least " + number_text(least(rule, m.site->absmax)) : "",
                 by_range ? damage(1, m.site->absmax, m) : text_at_one(r_.artifact, *m.site), 0, file});
  }

  /// True when something was found.
  bool value(const StoredScale& s, double scale, double absmax, const Measured& m) {
    const char* rule = cause_of_misfit(scale, absmax, max_);
    if (!rule && absmax > kMostInUse * max_ * scale) rule = "S15";
    if (rule && rule == std::string_view("S14")) rule = cause_of_clipping(s, scale, *m.site);
    // Scales that this program chose are meant: those for the largest rotation may fall on any ratio, and those
    // near 1.0 flush what nothing feels.
    const bool own = std::fabs(scale / static_cast<double>(m.site->scale) - 1) < 0.01;
    const auto is_flushed = [&](double x) { return x < scale * smallest(); };
    if (rule) {
      add(rule, s, "at least " + number_text(least(rule, absmax)), damage(scale, absmax, m));
    } else if (const double flushed = m.statistics && !own ? share_of(*m.statistics, false, is_flushed) : 0;
               flushed > 0.01) {
      add("S16", s, "at most 1 % flushed to zero",
          number_text(std::round(1000 * flushed) / 10) + " % at " + number_text(scale));
      return true;
    }
    // 224 is 448 with the headroom of 2 that FP8 gets for nothing.
    if (const int known = convention_of(absmax / scale); known != 0 && known != 448 && known != 224 && !own)
      add("S11", s, number_text(max_), std::to_string(known));
    return rule != nullptr;
  }

  const char* cause_of_clipping(const StoredScale& s, double scale, const ArtifactSite& site) const {
    if (site.parts && is_tight(scale, site.parts->absmax_latent, max_)) return "C06";
    if (!site.parts && s.values.size() == 1 && is_of_one_rank(scale, site.absmax_per_head, max_)) return "K08";
    return "S14";
  }

  /// The smallest scale that a rule about ranges lets pass: S15 asks for a tenth of headroom.
  double least(std::string_view rule, double absmax) const {
    return absmax / (rule == "S15" ? kMostInUse * max_ : max_);
  }

  /// Half the smallest subnormal: below, a value rounds to zero.
  double smallest() const { return number_format(r_.artifact.quantization.dtype).smallest_subnormal / 2; }

  std::string damage(double scale, double absmax, const Measured& m) const {
    std::string text = number_text(scale) + " for a largest magnitude of " + number_text(absmax);
    if (absmax > max_ * scale) text += ": too small by " + times(absmax / (max_ * scale));
    const auto is_beyond = [&](double x) { return x > max_ * scale; };
    if (m.statistics && absmax > max_ * scale)
      text += ", clips " + number_text(std::round(1e6 * share_of(*m.statistics, true, is_beyond)) / 1e4) + " %";
    return text;
  }

  /// Rounding to bf16 upwards is how exporters write for parameters of that dtype.
  void different(const StoredScale& s, const ArtifactSite& site) {
    if (r_.statistics || s.values.size() > 1) return;
    const double ratio = s.values[0] / static_cast<double>(site.scale);
    if (ratio < 1 - 1e-6 || ratio > 1 + 2 * kBf16)
      add("V06", s, number_text(site.scale), number_text(s.values[0]) + " (" + times(ratio) + ")");
  }

  void add(const char* rule, const StoredScale& s, std::string expected, std::string actual) {
    report_.add({rule, s.tensor, std::string(rule_named(rule).meaning), std::move(expected), std::move(actual), 0,
                 f_.path_of(s.file)});
  }

  const FolderUnderTest& f_;
  const Reference& r_;
  double max_;
  Report& report_;
  bool judges_absent_;  // 1.0, where the folder has no scales
  size_t n_sites_ = 0, n_at_one_ = 0;
};

void check_towers(const FolderUnderTest& f, const Artifact& a, Report& report) {
  const Json& config = f.checkpoint.config();
  const bool towers = find_member(config, "vision_config") || find_member(config, "audio_config");
  if (towers && a.calibration.encoder_tokens.value_or(0) == 0)
    report.add(
        {"C19", "", "tokens of images or sound in the calibration", "some", "none", 0, f.path_of("config.json")});
}

/// Latent rows are no loss: no server takes their scale from a checkpoint.
void check_presence(const FolderUnderTest& f, const Artifact& a, Report& report) {
  std::vector<DepartingSite> sites = departing_sites(a, false);  // a server without scales has 1.0
  std::erase_if(sites, [](const DepartingSite& s) { return s.layer->is_mla(); });
  // Those of vLLM-Ascend are compared with a scale file per channel: check_modelslim_against().
  const bool is_compared = a.quantization.granularity == Granularity::Channel && has_modelslim_scales(f);
  if (!sites.empty() && f.stored.tensors.empty() && !is_compared)
    report.add({"V09", "", "the scales of keys and values that are not 1.0", text_of(a, sites), "none", 0,
                f.path_of("config.json")});
}

}  // namespace

bool is_judged_at_one(const FolderUnderTest& f, const Reference& reference) {
  return reference.statistics && f.stored.declaration.declares_cache() &&
         declaration_error(f.stored.declaration, ServerKind::Vllm).empty() &&
         std::ranges::all_of(f.spec.caches, [&](const KvLayout& cache) {
           const std::string module = module_name(f.stored.tensor_prefix, cache);
           return cache_format(f.stored.declaration, module, false) == "fp8" &&
                  cache_format(f.stored.declaration, module, true) == "fp8";
         });
}

void check_against(const FolderUnderTest& f, const Reference& reference, Report& report) {
  report.evaluated({"C06", "C19", "K08", "S09", "S10", "S11", "S13", "S14", "S15"});
  if (reference.statistics) {
    report.evaluated({"S16", "S28"});
  } else {
    report.evaluated({"V06", "V09"});
    check_presence(f, reference.artifact, report);
    check_modelslim_against(f, reference.artifact, report);
  }
  check_towers(f, reference.artifact, report);
  Comparison comparison(f, reference, report);
  for (const auto& [l, path] : listed_layers(reference.artifact))
    for (const KvLayout& cache : f.spec.caches)
      if (cache.layer == l.index && cache.is_mla() == l.is_mla()) comparison.layer(l, cache);
  if (!reference.statistics) return;
  if (comparison.all_at_one())
    check_at_one(reference.artifact, report);
  else
    report.not_evaluated({"S27"}, "the cache does not run at 1.0");
}

}  // namespace kvcal
