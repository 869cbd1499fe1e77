#include "drift_output.h"

#include <algorithm>
#include <cmath>

#include "artifact/json_text.h"
#include "base/error.h"
#include "base/number_text.h"
#include "table.h"

namespace kvcal {
namespace {

std::string percent_of(double share) { return share > 0 ? share_in_percent(share) : "0 %"; }

std::string growth_text(double growth) {
  return std::isfinite(growth) ? formatted("%+.3g %%", 100 * growth) : "from zero";
}

std::string token_share(const SiteDrift& d) {
  const std::string least = percent_of(d.clipped_tokens), most = percent_of(d.clipped_tokens_most);
  return least == most ? least : least + " to " + most;
}

std::string limits_text(const SiteDrift& d) {
  std::string text;
  for (const DriftLimit limit : d.broken)
    text += (text.empty() ? "" : ", ") + std::string(limit == DriftLimit::NotFinite ? "not finite" : name_of(limit));
  return text;
}

std::string since_text(const DriftSince& since) {
  return quoted(since.statistics) + (since.prompt.empty() ? "" : " " + quoted(since.prompt));
}

Json finite_or_null(double x) { return std::isfinite(x) ? Json(x) : Json(); }

/// A label's value, printable: backslash and quote are escaped, nothing else.
std::string label(const std::string& value) {
  std::string out;
  for (const char c : printable(value)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string sample_value(double x) { return std::isinf(x) ? "+Inf" : shortest_double(x); }

std::string row_of(const SiteDrift& d) { return d.is_mtp ? "mtp" : std::to_string(d.layer); }

std::string labels_of(const SiteDrift& d) { return "layer=\"" + row_of(d) + "\",site=\"" + d.site + '"'; }

struct Gauge {
  const char *name, *help;
  double (*value)(const SiteDrift&);
};

constexpr Gauge kGauges[] = {
    {"broken", "1 where a limit of kvcal drift is broken.",
     [](const SiteDrift& d) { return d.broken.empty() ? 0.0 : 1.0; }},
    {"tokens", "Tokens measured.", [](const SiteDrift& d) { return static_cast<double>(d.n_tokens); }},
    {"absmax", "Largest magnitude measured.", [](const SiteDrift& d) { return double{d.absmax}; }},
    {"absmax_growth_ratio", "Largest magnitude against the scale file's, less 1.",
     [](const SiteDrift& d) { return d.growth; }},
    {"headroom_ratio", "Range of the scale over the largest magnitude; below 1 values are clipped.",
     [](const SiteDrift& d) { return d.headroom; }},
    {"clipped_values_ratio", "Share of values clipped, in the worst head.",
     [](const SiteDrift& d) { return d.clipped; }},
    {"clipped_tokens_ratio", "Share of tokens with a clipped value, in the worst head: at least.",
     [](const SiteDrift& d) { return d.clipped_tokens; }},
    {"clipped_tokens_most_ratio", "Share of tokens with a clipped value, in the worst head: at most.",
     [](const SiteDrift& d) { return d.clipped_tokens_most; }},
    {"lost_energy_ratio", "Share of energy clipped or below the smallest normal number, in the worst head.",
     [](const SiteDrift& d) { return d.lost; }},
    {"not_finite_values", "Values that are infinite or NaN.",
     [](const SiteDrift& d) { return static_cast<double>(d.n_not_finite); }},
};

Lines heading(const std::string& name, const char* help) {
  return Lines("# HELP " + name + " " + help) + Lines("# TYPE " + name + " gauge");
}

}  // namespace

Lines drift_text(const std::vector<SiteDrift>& sites) {
  using enum Table::Align;
  Table table({{"layer", Right},
               {"site"},
               {"tokens", Right, 3},
               {"absmax", Right, 2},
               {"growth", Right},
               {"headroom left", Right},
               {"clipped", Right},
               {"of tokens", Right, 4},
               {"lost", Right},
               {"broken"}},
              2);
  Lines closing;
  size_t n_broken = 0;
  for (const SiteDrift& d : sites) {
    table.add_row({row_of(d), d.site, grouped(static_cast<int64_t>(d.n_tokens)), formatted("%.4g", double{d.absmax}),
                   growth_text(d.growth), formatted("%.4g", d.headroom), percent_of(d.clipped), token_share(d),
                   percent_of(d.lost), limits_text(d)});
    if (d.broken.empty()) continue;
    ++n_broken;
    closing.add((d.is_mtp ? "MTP layer " : "layer " + row_of(d) + " ") + d.site + ": " + limits_text(d) + ", since " +
                since_text(*d.since));
  }
  return table.text() + Lines("") + closing +
         Lines(std::to_string(n_broken) + " of " + std::to_string(sites.size()) + " sites beyond the limits");
}

Json drift_json(const std::vector<SiteDrift>& sites) {
  Json all = Json::array();
  for (const SiteDrift& d : sites) {
    Json broken = Json::array(), since;
    for (const DriftLimit limit : d.broken) broken.push_back(name_of(limit));
    if (d.since)
      since = {{"statistics", d.since->statistics},
               {"prompt", d.since->prompt.empty() ? Json() : Json(d.since->prompt)}};
    all.push_back({{"layer", d.layer},
                   {"site", d.site},
                   {"tokens", d.n_tokens},
                   {"absmax", json_number(d.absmax)},
                   {"growth", finite_or_null(d.growth)},
                   {"headroom", finite_or_null(d.headroom)},
                   {"clipped", d.clipped},
                   {"clipped_tokens", {{"at_least", d.clipped_tokens}, {"at_most", d.clipped_tokens_most}}},
                   {"lost", d.lost},
                   {"not_finite", d.n_not_finite},
                   {"broken", broken},
                   {"since", since}});
  }
  return all;
}

Lines drift_prometheus(const std::vector<SiteDrift>& sites) {
  Lines text;
  for (const Gauge& gauge : kGauges) {
    const std::string name = std::string("kvcal_drift_") + gauge.name;
    text += heading(name, gauge.help);
    for (const SiteDrift& d : sites) text.add(name + "{" + labels_of(d) + "} " + sample_value(gauge.value(d)));
  }
  const std::string since = "kvcal_drift_since_info";
  text += heading(since, "Where a limit is broken: the first statistics, and their first prompt or interval.");
  for (const SiteDrift& d : sites)
    if (d.since)
      text.add(since + "{" + labels_of(d) + ",statistics=\"" + label(d.since->statistics) + "\",prompt=\"" +
               label(d.since->prompt) + "\"} 1");
  return text;
}

}  // namespace kvcal
