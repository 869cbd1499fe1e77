// Sites in figures: the two answers, what rounding does with and without the scale. Those that need something first.
#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "report/markup.h"
#include "report/problems.h"
#include "report/sections.h"

namespace kvcal {
namespace {

std::string number(float x) { return figure_text(static_cast<double>(x)); }
std::string percent(float x) { return share_in_percent(static_cast<double>(x)); }

// Smallest and largest head, where they differ.
std::string absmax_text(const ArtifactSite& site) {
  if (site.absmax_per_head.size() < 2) return number(site.absmax);
  float low = site.absmax_per_head[0];
  for (const float x : site.absmax_per_head) low = std::min(low, x);
  return low == site.absmax ? number(site.absmax) : number(low) + " to " + number(site.absmax);
}

std::string scale_text(const ArtifactSite& site) {
  const std::vector<float> scales = site.scales();
  if (scales.size() == 1) return number(scales[0]);
  const auto [low, high] = std::minmax_element(scales.begin(), scales.end());
  return number(*low) + " to " + number(*high);
}

/// A share in percent, a figure in nats as it is.
std::string figure_in_unit(Figure figure, double x) {
  const bool is_share = figure == Figure::Rel || figure == Figure::FlushedTokens;
  return is_share ? share_in_percent(x) : figure_text(x);
}

/// "kl 0.0021": the figure that decided.
std::string deciding_figure(const DamageAtScale& d) {
  const std::string name(name_of(d.decided_by));
  if (d.decided_by == Figure::Clipped) return name;
  const std::optional<double> value = deciding_value(d);
  if (!value) return "-";  // files of version 1.0
  return name + " " + figure_in_unit(d.decided_by, *value) +
         (d.by == Basis::Histogram ? " <span class=\"of\">predicted</span>" : "");
}

/// As RMS: of the square that is stored.
std::string stream_text(const Assessment& a) {
  return a.at_scale.on_stream ? share_in_percent(std::sqrt(*a.at_scale.on_stream)) : "-";
}

/// The answers come first: they are what a narrow screen shows.
HtmlTable sites_table(std::string_view caption, const Artifact& artifact) {
  return {caption,
          {{"layer", true},
           {"site"},
           {"scale?"},
           {kind_of_format(artifact)},
           {"attention", true},
           {"attention at 1.0", true},
           {"scale", true},
           {"largest magnitude of a head", true},
           {"error", true},
           {"error at 1.0", true},
           {"stream", true}}};
}

void add_site(HtmlTable& table, const Artifact& artifact, const ListedSite& listed) {
  const ArtifactSite& s = *listed.site.site;
  const Assessment& a = s.assessment;
  const std::string row = row_name(artifact, *listed.layer);
  table.add_row({row, listed.site.name, badge(a.scale), badge(a.fp8), deciding_figure(a.at_scale),
                 deciding_figure(a.at_one), scale_text(s), absmax_text(s), percent(s.error.at_scale),
                 percent(s.error.at_one), stream_text(a)});
  if (!s.parts) return;
  const auto add_part = [&](const char* name, float absmax, const ArtifactError& e) {
    table.add_row({row, name, "", "", "", "", "the same", number(absmax), percent(e.at_scale), percent(e.at_one), ""});
  };
  add_part("latent part", s.parts->absmax_latent, s.parts->error_latent);
  add_part("rope part", s.parts->absmax_rope, s.parts->error_rope);
}

/// "Above 0.025 the site is keep16."
std::string limits_text(const AssessmentLimits& limits, Figure figure) {
  return " Above " + figure_in_unit(figure, *limit_of(limits, figure)) + " the site is " +
         std::string(name_of(Fitness::Keep16)) + ".";
}

// Every word of the table, in its order.
std::string words(const Artifact& artifact) {
  const AssessmentLimits& limits = artifact.quantization.limits;
  std::string list = "<dl class=\"words\">\n";
  const auto add = [&](std::string_view word, const std::string& meaning) {
    list += "<dt>" + std::string(word) + "</dt><dd>" + meaning + "</dd>\n";
  };
  const auto add_figure = [&](Figure figure, const std::string& meaning) {
    add(name_of(figure), meaning + limits_text(limits, figure));
  };
  add("mtp",
      "The MTP layer, with which servers draft tokens that the model then verifies. Its cache decides how many drafts "
      "are right, never what the model answers.");
  add("query", "Measured for servers that round queries too. They occupy no cache and decide about no layer.");
  add("latent part, rope part", "The two parts of an MLA row, which share its scale.");
  add("scale?",
      "Does the scale matter? any: at 1.0 the site is not clearly worse. needed: its error at 1.0 is more than "
      "1.75 times that at the scale and above a third of the limit (of a kl the roots are compared).");
  add(kind_of_format(artifact),
      "Is the format fine here at this scale? fine: rounding does not ruin attention. keep16: attention is ruined, "
      "keep the layer in the model&#39;s dtype.");
  add("attention",
      "What rounding this site alone does to the attention of its layer: the figure that decided, which is the "
      "furthest beyond its limits or the nearest to them. Measured on sampled rows near this scale, or predicted from "
      "the statistics.");
  add_figure(Figure::Kl,
             "Measured: how far the attention weights move, mean KL divergence of the worst query head, in "
             "nats.");
  add(name_of(Figure::KlUnseen),
      "Of queries whose logits move by more than a nat: the kl that rows beyond the sampled ones may have.");
  add_figure(Figure::Rel,
             "Measured or predicted: relative change of what the layer&#39;s attention adds to the residual stream.");
  add_figure(Figure::Noise, "Predicted: noise of the attention logits, in nats, worst head.");
  add_figure(Figure::FlushedTokens, "Predicted: share of tokens whose values keep a few of their bits or become zero.");
  add(name_of(Figure::Clipped),
      "Some keys are beyond the largest number that is stored. Queries may look at just these: never fine.");
  add("scale",
      "Real number = stored number times scale. A server that loads none uses 1.0. That of keys allows for what "
      "rotation "
      "by position may add up from two channels, beyond the largest magnitude that was seen.");
  add("error",
      "Relative RMS of one round trip of the numbers, worst head. 2.65 % is ordinary for FP8 E4M3 and no fault; "
      "nothing is decided by it.");
  add("stream",
      "Measured: how far rounding moves the residual stream, relative to the stream, RMS. How much a layer harms the "
      "model&#39;s predictions, no figure of it alone tells: no answer follows from it.");
  return fold("What the words mean, and where the limits are", list + "</dl>\n");
}

constexpr size_t kOpenProblems = 12;  // problems that need no click: about as many as one screen holds

std::string problems(const ReportInput& input) {
  const std::vector<ListedSite> sites = problem_sites(input.artifact);
  if (sites.empty())
    return "<p>" + badge(Fitness::Fine) + " No site needs anything: fine, and no worse at scale 1.0.</p>\n";
  HtmlTable table = sites_table("Sites that need something, the worst first", input.artifact);
  for (size_t i = 0; i < std::min(sites.size(), kOpenProblems); ++i) add_site(table, input.artifact, sites[i]);
  std::string more;
  if (sites.size() > kOpenProblems)
    more = "<p>" + grouped(static_cast<int64_t>(sites.size() - kOpenProblems)) +
           " more of them are in the table of all sites.</p>\n";
  return table.html() + more;
}

std::string all_sites(const ReportInput& input) {
  HtmlTable table = sites_table("What the format does to each site, at its scale and at 1.0", input.artifact);
  const std::vector<ListedSite> sites = listed_sites(input.artifact);
  for (const ListedSite& site : sites) add_site(table, input.artifact, site);
  return fold("All " + grouped(static_cast<int64_t>(sites.size())) + " sites", table.html());
}

}  // namespace

std::string kind_of_format(const Artifact& artifact) {
  const std::string& dtype = artifact.quantization.dtype;
  return dtype.substr(0, dtype.find('_'));
}

std::string layers_section(const ReportInput& input) {
  return problems(input) + all_sites(input) + words(input.artifact);
}

}  // namespace kvcal
