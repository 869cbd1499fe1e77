// Whether the largest magnitudes had settled: over positions, prompts and passes.
#include <algorithm>

#include "base/number_text.h"
#include "report/growth_geometry.h"
#include "report/markup.h"
#include "report/problems.h"
#include "report/sections.h"
#include "stats/queries.h"

namespace kvcal {

std::vector<Point> growth_curve(std::span<const float> values, const Field& field, size_t most) {
  const float all = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  if (!(all > 0)) return {};
  const size_t n = std::min(values.size(), most);
  std::vector<Point> points;
  size_t read = 0;
  float largest = 0;
  for (size_t i = 0; i < n; ++i) {
    for (const size_t end = (i + 1) * values.size() / n; read < end; ++read) largest = std::max(largest, values[read]);
    const double place = n == 1 ? 1 : static_cast<double>(i) / static_cast<double>(n - 1);
    points.push_back(
        {field.left + field.width * place, field.top + field.height * (1 - static_cast<double>(largest / all))});
  }
  return points;
}

namespace {

constexpr size_t kMostPoints = 40;

struct Curve {
  std::string name;
  std::vector<float> values;
  bool converged = false;
};

std::string path_of(const std::vector<Point>& points) {
  std::string d;
  for (const Point& p : points) d += (d.empty() ? "M" : "L") + coordinate(p.x) + " " + coordinate(p.y);
  return d;
}

std::string frame(const Field& f, const std::string& from, const std::string& to) {
  std::string body;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double y = f.top + f.height * (1 - share);
    body += svg_line(share == 0 ? "axis" : "rule", f.left, y, f.left + f.width, y);
    body += svg_text("a e", f.left - 3, y + 3, share == 0 ? "0" : share == 1 ? "1" : "0.5");
  }
  return body + svg_text("a", f.left, f.top + f.height + 13, from) +
         svg_text("a e", f.left + f.width, f.top + f.height + 13, to);
}

std::string chart(const std::string& title, const std::vector<Curve>& curves, const std::string& from,
                  const std::string& to) {
  const Field f;
  std::string body = frame(f, from, to);
  size_t n_open = 0, n_drawn = 0;
  for (const Curve& c : curves) {
    const std::vector<Point> points = growth_curve(c.values, f, kMostPoints);
    if (points.size() < 2) continue;
    ++n_drawn;
    n_open += c.converged ? 0 : 1;
    body += std::string("<path class=\"curve") + (c.converged ? "" : " open") + "\" d=\"" + path_of(points) +
            "\"><title>" + escaped(c.name) + "</title></path>";
  }
  if (n_drawn == 0) return "";
  const std::string words = title + ": " + std::to_string(n_drawn) +
                            " curves of the largest magnitude so far, relative to the last, " + std::to_string(n_open) +
                            " of them not converged; the table below has the figures";
  return "<figure><figcaption>" + title + "</figcaption>" +
         drawing(f.left + f.width + 8, f.top + f.height + 18, words, body) + "</figure>\n";
}

std::string last_bucket(const std::vector<Curve>& curves) {
  size_t most = 0;
  for (const Curve& c : curves) most = std::max(most, c.values.size());
  return most < 2 ? "position 0" : "below position " + grouped(int64_t{1} << std::min<size_t>(most - 1, 62));
}

std::vector<Curve> position_curves(const ReportInput& input, const std::string& site) {
  std::vector<Curve> curves;
  for (const auto& [layer, path] : listed_layers(input.artifact))
    for (const NamedSite& s : sites_of(layer))
      if (s.name == site)
        curves.push_back({site_title(input, layer, site), s.site->absmax_by_position, s.site->growth.converged});
  return curves;
}

std::vector<Curve> prompt_curves(const ReportInput& input, const std::string& site) {
  std::vector<Curve> curves;
  for (const auto& [layer, path] : listed_layers(input.artifact)) {
    const CacheStatistics* cache = cache_of(input, layer);
    for (const NamedSite& s : sites_of(layer))
      if (cache && s.name == site)
        curves.push_back({site_title(input, layer, site),
                          absmax_by_prompts(measured_site(*cache, site), input.statistics->run.n_passes),
                          s.site->growth.converged});
  }
  return curves;
}

std::string charts(const ReportInput& input) {
  std::string out;
  for (const char* site : {"key", "value", "latent", "query"}) {
    const std::vector<Curve> positions = position_curves(input, site);
    out += chart(std::string(site) + " over positions", positions, "position 0", last_bucket(positions));
    const std::vector<Curve> prompts = prompt_curves(input, site);
    const size_t n = prompts.empty() ? 0 : prompts.front().values.size();
    out += chart(std::string(site) + " over prompts", prompts, "1 prompt", std::to_string(n) + " prompts");
  }
  return out;
}

std::string share_text(const std::optional<float>& share) {
  return share ? share_in_percent(static_cast<double>(*share)) : "-";
}

std::string passes_text(const ArtifactGrowth& growth) {
  std::string text;
  for (const auto& pass : growth.per_pass) text += (text.empty() ? "" : ", ") + share_text(pass);
  return text.empty() ? "-" : text;
}

/// The prompt or tag without which the range would be less than half.
std::string dependence_text(const ArtifactGrowth& growth) {
  std::string text;
  for (const auto& [what, d] : {std::pair("prompt ", &growth.depends_on), std::pair("tag ", &growth.depends_on_tag)})
    if (*d)
      text += (text.empty() ? "" : ", ") + std::string(what) + escaped(quoted((*d)->on)) +
              ((*d)->ratio ? ", " + figure_text(static_cast<double>(*(*d)->ratio)) + " times all others" : "");
  return text.empty() ? "-" : text;
}

/// "83.1 % (layer 3)"
std::string reach_text(const Json& group, const char* site) {
  const Json* share = find_member(group, site);
  if (share == nullptr) return "-";
  return share_in_percent(get_number(*share, "share")) + " (layer " + std::to_string(get_int(*share, "layer")) + ")";
}

std::string groups_fold(const Artifact& artifact) {
  if (!artifact.ranges_by.is_object()) return "";
  HtmlTable table(
      "The largest share of a site's largest magnitude that prompts of a tag, or tokens of a role or turn, reach",
      {{"by"}, {"name"}, {"count", true}, {"key", true}, {"value", true}, {"latent", true}, {"query", true}});
  for (const auto& [grouping, groups] : artifact.ranges_by.items())
    for (const Json& group : groups) {
      const int64_t n = get_int(group, grouping == "tag" ? "prompts" : "tokens");
      table.add_row({escaped(grouping), escaped(get_string(group, "name")), grouped(n), reach_text(group, "key"),
                     reach_text(group, "value"), reach_text(group, "latent"), reach_text(group, "query")});
    }
  return fold("By tag, role and turn", table.html());
}

HtmlTable growth_table(std::string_view caption) {
  return {caption,
          {{"layer", true},
           {"site"},
           {"settled"},
           {"depends on"},
           {"last quarter of the prompts", true},
           {"passes 2, 3, ...", true},
           {"last positions", true},
           {"new prompt exceeds it", true},
           {"and the headroom", true}}};
}

void add_growth(HtmlTable& table, const ReportInput& input, const ListedSite& s) {
  const ArtifactGrowth& g = s.site.site->growth;
  table.add_row({row_name(input.artifact, *s.layer), s.site.name, g.converged ? "yes" : "<strong>no</strong>",
                 dependence_text(g), share_text(g.last_quarter), passes_text(g), share_text(g.position),
                 g.coverage ? share_text(g.coverage->beyond_absmax) : "-",
                 g.coverage ? share_text(g.coverage->beyond_headroom) : "-"});
}

constexpr size_t kOpenUnsettled = 6;

/// How many sites had settled, and the first that had not.
std::string unsettled(const ReportInput& input, const std::vector<ListedSite>& sites) {
  HtmlTable table = growth_table("Sites that had not settled");
  size_t n = 0;
  for (const ListedSite& s : sites)
    if (!s.site.site->growth.converged && n++ < kOpenUnsettled) add_growth(table, input, s);
  const std::string all = grouped(static_cast<int64_t>(sites.size())) + " largest magnitudes had settled";
  std::string text = "<p>" + (n == 0 ? "All " : grouped(static_cast<int64_t>(sites.size() - n)) + " of ") + all +
                     " when the prompts ended.</p>\n";
  if (n > 0) text += table.html();
  if (n > kOpenUnsettled)
    text += "<p>" + grouped(static_cast<int64_t>(n - kOpenUnsettled)) +
            " more of them are in the table of all sites.</p>\n";
  return text;
}

}  // namespace

std::string growth_section(const ReportInput& input) {
  const std::vector<ListedSite> sites = listed_sites(input.artifact);
  HtmlTable table = growth_table("What the last part of the data added to the largest magnitude");
  for (const ListedSite& s : sites) add_growth(table, input, s);
  return unsettled(input, sites) + fold("All " + grouped(static_cast<int64_t>(sites.size())) + " sites", table.html()) +
         fold("Curves",
              "<p>The largest magnitude so far, relative to its final value: flat at the right where it has converged. "
              "Dashed curves have not. Positions are in powers of two.</p>\n<div class=\"grid\">\n" +
                  charts(input) + "</div>\n") +
         groups_fold(input.artifact);
}

}  // namespace kvcal
