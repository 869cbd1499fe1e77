// The frame of the page: head, contents, sections in order.
#include "base/number_text.h"
#include "report/markup.h"
#include "report/problems.h"
#include "report/sections.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

struct Part {
  const char* id;
  const char* title;
  std::string (*make)(const ReportInput&);
};

constexpr Part kParts[] = {
    {"summary", "Summary", summary_section},
    {"layers", "Layers", layers_section},
    {"evaluation", "Evaluation", evaluation_section},
    {"formats", "Formats", formats_section},
    {"heads", "Heads", heat_map_section},
    {"histograms", "Magnitudes", histogram_section},
    {"growth", "Growth", growth_section},
    {"outliers", "Outliers", outlier_section},
    {"states", "Recurrent states", states_section},
    {"provenance", "Provenance", provenance_section},
    {"evidence", "Evidence", evidence_section},
};

/// "run.kvstats: 124 prompts, 31,002 tokens; fp8_e4m3, one scale per tensor, policy absmax"
std::string source_text(const ReportInput& input) {
  const CalibrationInfo& fed = input.artifact.calibration;
  const ArtifactQuantization& q = input.artifact.quantization;
  return "From " + input.source + ": " + grouped(fed.n_prompts) + " prompts, " + grouped(fed.n_tokens) + " tokens; " +
         q.dtype + ", a scale per " + std::string(name_of(q.granularity)) + ", policy " + q.policy + "; weights " +
         input.artifact.model.weights_fingerprint.substr(0, 12) + ".";
}

std::string head(const std::string& title) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
         "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>" +
         escaped(title) + "</title>\n<style>\n" + style_sheet() + "</style>\n</head>\n";
}

}  // namespace

std::string report_html(const ReportInput& input) {
  const std::string title = "KV cache of " + input.artifact.model.architecture;
  std::string contents, body;
  for (const Part& part : kParts) {
    const std::string made = part.make(input);
    if (made.empty()) continue;
    contents += std::string("<li><a href=\"#") + part.id + "\">" + part.title + "</a></li>";
    body += section(part.id, part.title, made);
  }
  return head(title) + "<body>\n<header><h1>" + escaped(title) + "</h1>\n<p class=\"source\">" +
         escaped(source_text(input)) + "</p></header>\n<nav aria-label=\"Contents\"><ul>" + contents +
         "</ul></nav>\n<main>\n" + body + "</main>\n" + std::string(kWrittenBy) + escaped(input.tool_version) +
         "</footer>\n</body>\n</html>\n";
}

namespace {

std::string badge_of(std::string_view sign, std::string_view name) {
  const std::string word(name);
  return "<span class=\"v " + word + "\">" + std::string(sign) + " " + word + "</span>";
}

}  // namespace

std::string_view sign_of(ScaleNeed scale) { return scale == ScaleNeed::Needed ? "!" : "\u2713"; }

std::string_view sign_of(Fitness fp8) { return fp8 == Fitness::Fine ? "\u2713" : "\u2717"; }

std::string_view urgent_name(ScaleNeed scale, Fitness fp8) {
  return urgency(scale, fp8) > urgency(ScaleNeed::Any, fp8) ? name_of(scale) : name_of(fp8);
}

std::string badge(ScaleNeed scale) { return badge_of(sign_of(scale), name_of(scale)); }
std::string badge(Fitness fp8) { return badge_of(sign_of(fp8), name_of(fp8)); }

std::string layer_title(const ReportInput& input, const ArtifactLayer& layer) {
  return input.artifact.model.is_mtp(layer.index) ? "MTP layer" : "layer " + std::to_string(layer.index);
}

std::string site_title(const ReportInput& input, const ArtifactLayer& layer, std::string_view site) {
  return layer_title(input, layer) + " " + std::string(site);
}

const CacheStatistics* cache_of(const ReportInput& input, const ArtifactLayer& layer) {
  if (!input.statistics) return nullptr;
  for (const CacheStatistics& c : input.statistics->caches)
    if (c.layout.layer == layer.index) return &c;
  return nullptr;
}

SiteStatistics measured_site(const CacheStatistics& cache, std::string_view site) {
  if (site == "latent") return latent_row(cache);
  for (const CacheSite s : sites_of(cache.layout))
    if (name_of(s) == site) return cache.at(s);
  return {};
}

}  // namespace kvcal
