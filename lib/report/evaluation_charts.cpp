// Charts of an evaluation: KL over positions, and layers by sensitivity.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/number_text.h"
#include "base/portable_math.h"
#include "report/estimates.h"
#include "report/evaluation_geometry.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {

namespace {

double log10_of(double x) { return portable_log(x) / portable_log(10); }

}  // namespace

KlAxis axis_of(std::span<const double> kls) {
  double lowest = std::numeric_limits<double>::infinity(), highest = 0;
  for (const double kl : kls) {
    if (kl > 0) lowest = std::min(lowest, kl);
    highest = std::max(highest, kl);
  }
  if (!(highest > 0)) return {-1, 0};
  constexpr double kAlmost = 1e-9;  // a power of ten is its own decade
  const int top = static_cast<int>(std::ceil(log10_of(highest) - kAlmost));
  const int bottom = std::max(top - 8, static_cast<int>(std::floor(log10_of(lowest) + kAlmost)));
  return {bottom == top ? top - 1 : bottom, top};
}

double height_of(double kl, const KlAxis& axis) {
  if (!(kl > 0)) return 0;
  return std::clamp((log10_of(kl) - axis.low) / (axis.high - axis.low), 0.0, 1.0);
}

namespace {

constexpr size_t kMostVariants = 24;  // that are drawn
constexpr size_t kOpenBars = 10;      // layers in sight
constexpr size_t kMostBars = 200;     // layers
constexpr double kBarHeight = 15, kBarWidth = 180, kBarLeft = 58;

/// KLs of all variants share an axis, so that charts can be compared.
KlAxis position_axis(const SavedEvaluation& e) {
  std::vector<double> kls;
  for (const SavedVariant& v : e.variants)
    for (const auto& [from, f] : v.by_position)
      if (f.kl) kls.push_back(f.kl->mean);
  return axis_of(kls);
}

std::string power_of_ten(int exponent) {
  return exponent >= -3 && exponent <= 3 ? formatted("%g", portable_pow(10, exponent))
                                         : "1e" + std::to_string(exponent);
}

// A line for each power of ten, and apart from them one for what is zero, which has no place on such an axis.
struct PositionField {
  static constexpr double kLeft = 40, kTop = 8, kWidth = 280, kHeight = 110, kZero = kTop + kHeight + 16;
  KlAxis axis;
  double y(double kl) const { return kl > 0 ? kTop + kHeight * (1 - height_of(kl, axis)) : kZero; }
};

std::string position_rules(const SavedVariant& v, const PositionField& f) {
  using F = PositionField;
  constexpr double kLeft = F::kLeft, kRight = F::kLeft + F::kWidth, kBottom = F::kZero;
  std::string body;
  for (int exponent = f.axis.low; exponent <= f.axis.high; ++exponent) {
    const double y = f.y(portable_pow(10, exponent));
    body += svg_line("rule", kLeft, y, kRight, y) + svg_text("a e", kLeft - 3, y + 4, power_of_ten(exponent));
  }
  body += svg_line("axis", kLeft, kBottom, kRight, kBottom) + svg_text("a e", kLeft - 3, kBottom + 4, "0");
  const size_t n = v.by_position.size(), step = (n + 5) / 6;
  for (size_t i = 0; i < n; i += std::max<size_t>(1, step))
    body += svg_text("a m", kLeft + f.kWidth * (static_cast<double>(i) + 0.5) / static_cast<double>(n), kBottom + 14,
                     grouped(v.by_position[i].first));
  return body;
}

/// Of variants that have one, below the title of their chart.
std::string slope_of(const SavedEvaluation& e, const SavedVariant& v) {
  const SavedConclusion::Variant* concluded = e.conclusion ? e.conclusion->of(v.name) : nullptr;
  if (!concluded || !concluded->kl_slope) return "";
  const SavedEstimate& slope = *concluded->kl_slope;
  return "<br/><span class=\"of\">" + escaped(slope_sentence(slope.interval, kl_estimate(slope))) + "</span>";
}

std::string position_chart(const SavedEvaluation& e, const SavedVariant& v, const KlAxis& axis) {
  const PositionField f{axis};
  std::string body = position_rules(v, f), path;
  const auto n = static_cast<double>(v.by_position.size());
  bool any = false, is_broken = true;
  for (size_t i = 0; i < v.by_position.size(); ++i) {
    const auto& [from, figures] = v.by_position[i];
    if (!figures.kl) continue;
    any = true;
    const double kl = figures.kl->mean, x = f.kLeft + f.kWidth * (static_cast<double>(i) + 0.5) / n, y = f.y(kl);
    if (kl > 0) path += (is_broken ? "M" : "L") + coordinate(x) + " " + coordinate(y);
    is_broken = !(kl > 0);
    body += "<circle class=\"dot\" cx=\"" + coordinate(x) + "\" cy=\"" + coordinate(y) + "\" r=\"2.5\"><title>" +
            escaped("from position " + grouped(from) + ": " + figure_text(kl) + " of " + grouped(figures.n_tokens) +
                    " tokens") +
            "</title></circle>";
  }
  if (!any) return "";
  if (!path.empty()) body += "<path class=\"curve\" d=\"" + path + "\"/>";
  return "<figure><figcaption>" + escaped(v.name) + " <span class=\"of\">mean KL, logarithmic</span>" + slope_of(e, v) +
         "</figcaption>" +
         drawing(f.kLeft + f.kWidth + 8, f.kZero + 20,
                 "mean KL of " + v.name + " over positions, on a logarithmic axis", body) +
         "</figure>\n";
}

std::string positions(const SavedEvaluation& e) {
  const KlAxis axis = position_axis(e);
  std::string charts;
  size_t n = 0;
  for (const SavedVariant& v : e.variants)
    if (v.name != "reference" && n++ < kMostVariants) charts += position_chart(e, v, axis);
  if (charts.empty()) return "";
  return fold("KL over positions",
              "<p>The mean over the tokens of each part of the prompts: positions 0, 1, 2 to 3, 4 to 7, and so on; "
              "below a point, where its part begins. Upwards, in nats, a line is ten times the one below it; 0 has a "
              "line of its own. All charts have the same axis.</p>\n<div class=\"grid\">\n" +
                  charts + "</div>\n");
}

std::string kept_format(const SavedEvaluation& e, int64_t layer) {
  if (e.recipe)
    for (const auto& [index, format] : e.recipe->layers)
      if (index == layer) return format;
  return "";
}

std::string bars_axis(double end, double bottom) {
  std::string body;
  for (const double share : {0.0, 0.5, 1.0}) {
    const double x = kBarLeft + kBarWidth * share;
    body += svg_line(share == 0 ? "axis" : "rule", x, 0, x, bottom) +
            svg_text("a m", x, bottom + 12, figure_text(end * share));
  }
  return body;
}

using Sorted = std::span<const SavedLayer* const>;

std::string layers_drawing(const SavedEvaluation& e, Sorted layers, double end) {
  const double bottom = kBarHeight * static_cast<double>(layers.size()) + 2;
  std::string body = bars_axis(end, bottom);
  double y = 2;
  for (const SavedLayer* layer : layers) {
    const double width = layer->kl ? kBarWidth * *layer->kl / end : kBarWidth;
    const std::string format = kept_format(e, layer->index);
    body += svg_text("a e", kBarLeft - 4, y + 10, "layer " + std::to_string(layer->index));
    body += svg_rect(layer->kl ? "bar" : "lost", kBarLeft, y, width, kBarHeight - 4);
    body += svg_text("", kBarLeft + width + 4, y + 10,
                     (layer->kl ? figure_text(*layer->kl) : "not finite") + (format.empty() ? "" : ", " + format));
    y += kBarHeight;
  }
  return "<figure>" +
         drawing(kBarLeft + kBarWidth + 130, bottom + 16,
                 "layers by mean KL in nats when each alone is rounded, on a linear axis", body) +
         "</figure>\n";
}

std::string sensitivity(const SavedEvaluation& e) {
  if (e.layers.empty()) return "";
  const std::vector<const SavedLayer*> sorted = by_sensitivity(e);
  double largest = 0;
  for (const SavedLayer* layer : sorted) largest = std::max(largest, layer->kl.value_or(0));
  const double end = round_end(largest);
  const size_t n_open = std::min(sorted.size(), kOpenBars), n_drawn = std::min(sorted.size(), kMostBars);
  std::string rest;
  if (n_drawn > n_open)
    rest = fold("The other " + grouped(static_cast<int64_t>(sorted.size() - n_open)) + " layers",
                layers_drawing(e, Sorted(sorted).subspan(n_open, n_drawn - n_open), end));
  if (sorted.size() > n_drawn)
    rest += "<p>" + grouped(static_cast<int64_t>(sorted.size() - n_drawn)) + " less sensitive ones are left out.</p>\n";
  const std::string on =
      e.n_sampled_prompts ? ", on " + grouped(*e.n_sampled_prompts) + " of " + grouped(e.n_prompts) + " prompts" : "";
  return "<h3>Layers by sensitivity</h3>\n<p>The mean KL, in nats, when the cache of one layer alone is rounded" + on +
         (e.recipe ? ", and its format in the recipe.</p>\n" : ".</p>\n") +
         layers_drawing(e, Sorted(sorted).first(n_open), end) + rest;
}

}  // namespace

std::string evaluation_charts(const SavedEvaluation& evaluation) {
  return positions(evaluation) + sensitivity(evaluation);
}

}  // namespace kvcal
