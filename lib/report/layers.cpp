// Every site of every layer in figures: scale, what rounding does with and without it, the two answers.
#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "report/markup.h"
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

/// "kl 0.0021 (0.015, 0.05)": the figure that decided, and its limits.
std::string deciding_figure(const DamageAtScale& d, const AssessmentLimits& limits) {
  const std::string name(name_of(d.decided_by));
  if (d.decided_by == Figure::Clipped) return name;
  const std::optional<double> value = deciding_value(d);
  if (!value) return "-";  // files of version 1.0
  const bool is_share = d.decided_by == Figure::Rel || d.decided_by == Figure::FlushedTokens;
  const auto text = [&](double x) { return is_share ? share_in_percent(x) : figure_text(x); };
  const FigureLimits& limit = *limits_of(limits, d.decided_by);
  return name + " " + text(*value) + " <span class=\"of\">(" + text(limit.check) + ", " + text(limit.keep16) +
         ")</span>";
}

/// As RMS: of the square that is stored.
std::string stream_text(const Assessment& a) {
  return a.at_scale.on_stream ? share_in_percent(std::sqrt(*a.at_scale.on_stream)) : "-";
}

std::string basis_text(const Assessment& a) {
  const std::string basis(name_of(a.at_scale.by));
  return a.at_one.by == a.at_scale.by ? basis : basis + ", at 1.0 " + std::string(name_of(a.at_one.by));
}

void add_site(HtmlTable& table, const std::string& row, const NamedSite& named, const AssessmentLimits& limits) {
  const ArtifactSite& s = *named.site;
  const Assessment& a = s.assessment;
  table.add_row({row, named.name, scale_text(s), absmax_text(s), percent(s.error.at_scale), percent(s.error.at_one),
                 deciding_figure(a.at_scale, limits), deciding_figure(a.at_one, limits), stream_text(a), basis_text(a),
                 badge(a.scale), badge(a.fp8)});
  if (!s.parts) return;
  const auto add_part = [&](const char* name, float absmax, const ArtifactError& e) {
    table.add_row(
        {row, name, "the same", number(absmax), percent(e.at_scale), percent(e.at_one), "", "", "", "", "", ""});
  };
  add_part("latent part", s.parts->absmax_latent, s.parts->error_latent);
  add_part("rope part", s.parts->absmax_rope, s.parts->error_rope);
}

// Every word of the table, in its order.
constexpr const char* kWords =
    R"(<dl class="words">
<dt>mtp</dt><dd>The MTP layer, with which servers draft tokens that the model then verifies. Its cache decides how many drafts are right, never what the model answers.</dd>
<dt>query</dt><dd>Measured for servers that round queries too. They occupy no cache and decide about no layer.</dd>
<dt>latent part, rope part</dt><dd>The two parts of an MLA row, which share its scale.</dd>
<dt>scale</dt><dd>Real number = stored number times scale. A server that loads none uses 1.0.</dd>
<dt>error</dt><dd>Relative RMS of one round trip of the numbers, worst head. 2.65 % is ordinary for FP8 E4M3 and no fault; nothing is decided by it.</dd>
<dt>attention</dt><dd>What rounding this site alone does to the attention of its layer: the figure that decided, which is the furthest beyond its limits or the nearest to them. In parentheses its limits: above the first it is "check", above the second "keep16".</dd>
<dt>kl</dt><dd>Measured: how far the attention weights move, mean KL divergence of the worst query head, in nats.</dd>
<dt>rel</dt><dd>Measured or predicted: relative change of what the layer's attention adds to the residual stream.</dd>
<dt>noise</dt><dd>Predicted: noise of the attention logits, in nats, worst head.</dd>
<dt>flushed_tokens</dt><dd>Predicted: share of tokens whose values keep a few of their bits or become zero.</dd>
<dt>clipped</dt><dd>Some keys are beyond the largest number that is stored. Queries may look at just these: never fine.</dd>
<dt>stream</dt><dd>Measured: how far rounding moves the residual stream, relative to the stream, RMS. How much a layer harms the model's predictions, no figure of it alone tells: no answer follows from it.</dd>
<dt>by</dt><dd>attention: measured on sampled rows near this scale. histogram: predicted from the statistics.</dd>
<dt>scale?</dt><dd>Does the scale matter? any: 1.0 would do as well. needed: at 1.0 the site would be clearly worse, and not fine or clipped.</dd>
<dt>fp8</dt><dd>Is the format fine here at this scale? fine: rounding is not felt. check: ordinary rounding can be felt, look at the model's answers. keep16: attention is ruined, keep the layer in the model's dtype.</dd>
</dl>
)";

}  // namespace

std::string layers_section(const ReportInput& input) {
  HtmlTable table("What the format does to each site, at its scale and at 1.0", {{"layer", true},
                                                                                 {"site"},
                                                                                 {"scale", true},
                                                                                 {"largest magnitude of a head", true},
                                                                                 {"error", true},
                                                                                 {"error at 1.0", true},
                                                                                 {"attention", true},
                                                                                 {"attention at 1.0", true},
                                                                                 {"stream", true},
                                                                                 {"by"},
                                                                                 {"scale?"},
                                                                                 {"fp8"}});
  for (const auto& [layer, path] : listed_layers(input.artifact))
    for (const NamedSite& site : sites_of(layer))
      add_site(table, row_name(input.artifact, layer), site, input.artifact.quantization.limits);
  return table.html() + kWords;
}

}  // namespace kvcal
