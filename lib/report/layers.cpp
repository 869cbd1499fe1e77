// Every site of every layer in figures: scale, errors with and without it, verdict.
#include <algorithm>

#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

std::string number(float x) { return figure_text(static_cast<double>(x)); }
std::string percent(float x) { return percent_text(static_cast<double>(x)); }

// Smallest and largest head, where they differ.
std::string absmax_text(const ArtifactSite& site) {
  if (site.absmax_per_head.size() < 2) return number(site.absmax);
  float low = site.absmax_per_head[0];
  for (const float x : site.absmax_per_head) low = std::min(low, x);
  return low == site.absmax ? number(site.absmax) : number(low) + " to " + number(site.absmax);
}

std::string scale_text(const ArtifactSite& site) {
  if (site.scale_per_head.empty()) return number(site.scale);
  const auto [low, high] = std::minmax_element(site.scale_per_head.begin(), site.scale_per_head.end());
  return number(*low) + " to " + number(*high);
}

std::vector<std::string> error_cells(const ArtifactError& e) {
  return {percent(e.at_scale),      percent(e.at_one),      percent(e.clipped_at_one),
          percent(e.lost_at_scale), percent(e.lost_at_one), e.noise_at_scale ? number(*e.noise_at_scale) : ""};
}

void add_row(HtmlTable& table, const std::vector<std::string>& first, const ArtifactError& error,
             const std::string& verdict) {
  std::vector<std::string> cells = first;
  const std::vector<std::string> errors = error_cells(error);
  cells.insert(cells.end(), errors.begin(), errors.end());
  cells.push_back(verdict);
  table.add_row(cells);
}

void add_site(HtmlTable& table, const ArtifactLayer& layer, const NamedSite& named) {
  const ArtifactSite& s = *named.site;
  const std::string index = std::to_string(layer.index);
  add_row(table, {index, named.name, scale_text(s), absmax_text(s)}, s.error, verdict_badge(s.verdict()));
  if (!s.parts) return;
  add_row(table, {index, "latent part", "the same", number(s.parts->absmax_latent)}, s.parts->error_latent, "");
  add_row(table, {index, "rope part", "the same", number(s.parts->absmax_rope)}, s.parts->error_rope, "");
}

}  // namespace

std::string layers_section(const ReportInput& input) {
  HtmlTable table("Errors of one round trip through the format, the worst of all heads",
                  {{"layer", true},
                   {"site"},
                   {"scale", true},
                   {"largest magnitude of a head", true},
                   {"error", true},
                   {"error at 1.0", true},
                   {"clipped at 1.0", true},
                   {"lost", true},
                   {"lost at 1.0", true},
                   {"noise", true},
                   {"verdict"}});
  for (const ArtifactLayer& layer : input.artifact.layers)
    for (const NamedSite& site : sites_of(layer)) add_site(table, layer, site);
  return table.html() +
         "<p class=\"help\">error: relative RMS; 2.65 % is ordinary for FP8 E4M3 and no fault. clipped: share of "
         "values above the largest "
         "storable. lost: share of energy that is clipped or subnormal. noise: bound on what rounding adds to "
         "attention logits, in nats. "
         "Queries are measured for servers that store them in FP8 too; they occupy no cache.</p>\n";
}

}  // namespace kvcal
