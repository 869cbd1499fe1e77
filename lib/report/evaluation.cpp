// What evaluate measured: variants, KL over positions, layers by sensitivity, the recipe, and answers side by side.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "base/number_text.h"
#include "base/portable_math.h"
#include "report/evaluation_geometry.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {

namespace {

double log10_of(double x) { return portable_log(x) / portable_log(10); }

/// So many bytes of a text, less those of a character that goes on behind them.
size_t whole_characters(std::string_view text, size_t n) {
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  return n;
}

}  // namespace

size_t common_beginning(std::string_view a, std::string_view b) {
  const auto same = static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  return std::min(whole_characters(a, same), whole_characters(b, same));
}

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

constexpr size_t kMostPrompts = 40;   // whose answers are shown
constexpr size_t kMostText = 4000;    // bytes of an answer
constexpr size_t kMostVariants = 24;  // that are drawn
constexpr size_t kMostBars = 200;     // layers
constexpr double kBarHeight = 13, kBarWidth = 160, kBarLeft = 52;

std::string kl_figure(const std::optional<SavedKl>& kl, double SavedKl::*figure) {
  return kl ? figure_text((*kl).*figure) : "not finite";
}

std::string perplexity(const std::optional<double>& nll) { return nll ? formatted("%.4f", portable_exp(*nll)) : "-"; }

std::string variants_table(const SavedEvaluation& e) {
  HtmlTable table("How far predictions of the next token move: KL in nats, by tokens of the prompts",
                  {{"variant"},
                   {"format"},
                   {"mean KL", true},
                   {"KL of 99 %", true},
                   {"worst KL", true},
                   {"same top token", true},
                   {"perplexity", true},
                   {"not finite", true}});
  for (const SavedVariant& v : e.variants)
    table.add_row({escaped(v.name), escaped(v.format), kl_figure(v.all.kl, &SavedKl::mean),
                   kl_figure(v.all.kl, &SavedKl::p99), kl_figure(v.all.kl, &SavedKl::worst),
                   v.all.top1 ? share_in_percent(*v.all.top1) : "-", perplexity(v.all.nll),
                   grouped(v.all.n_not_finite)});
  return table.html();
}

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

std::string position_chart(const SavedVariant& v, const KlAxis& axis) {
  constexpr double kLeft = 34, kTop = 8, kWidth = 280, kHeight = 110;
  std::string body, path;
  const int step = axis.high - axis.low > 4 ? 2 : 1;
  for (int exponent = axis.low; exponent <= axis.high; exponent += step) {
    const double y = kTop + kHeight * static_cast<double>(axis.high - exponent) / (axis.high - axis.low);
    body += svg_line(exponent == axis.low ? "axis" : "rule", kLeft, y, kLeft + kWidth, y);
    body += svg_text("a e", kLeft - 3, y + 3, power_of_ten(exponent));
  }
  const auto n = static_cast<double>(v.by_position.size());
  for (size_t i = 0; i < v.by_position.size(); ++i) {
    const auto& [from, f] = v.by_position[i];
    if (!f.kl) continue;
    const double x = kLeft + kWidth * (static_cast<double>(i) + 0.5) / n;
    const double y = kTop + kHeight * (1 - height_of(f.kl->mean, axis));
    path += (path.empty() ? "M" : "L") + coordinate(x) + " " + coordinate(y);
    body += "<circle class=\"dot\" cx=\"" + coordinate(x) + "\" cy=\"" + coordinate(y) + "\" r=\"2.5\"><title>" +
            escaped("from position " + grouped(from) + ": " + figure_text(f.kl->mean) + " of " + grouped(f.n_tokens) +
                    " tokens") +
            "</title></circle>";
  }
  if (path.empty()) return "";
  body += "<path class=\"curve\" d=\"" + path + "\"/>";
  body += svg_text("a", kLeft, kTop + kHeight + 13, "position 0") +
          svg_text("a e", kLeft + kWidth, kTop + kHeight + 13, "from " + grouped(v.by_position.back().first));
  return "<figure><figcaption>" + escaped(v.name) + "</figcaption>" +
         drawing(kLeft + kWidth + 8, kTop + kHeight + 18,
                 "mean KL of " + v.name + " over positions, on a logarithmic axis", body) +
         "</figure>\n";
}

std::string positions(const SavedEvaluation& e) {
  const KlAxis axis = position_axis(e);
  std::string charts;
  size_t n = 0;
  for (const SavedVariant& v : e.variants)
    if (v.name != "reference" && n++ < kMostVariants) charts += position_chart(v, axis);
  if (charts.empty()) return "";
  return "<h3>KL over positions</h3>\n<p>The mean over the tokens of each part of the prompts: positions 0, 1, 2 to 3, "
         "4 "
         "to 7, and so on. All charts have the same axis; what is 0 lies on its bottom.</p>\n<div class=\"grid\">\n" +
         charts + "</div>\n";
}

std::string kept_format(const SavedEvaluation& e, int64_t layer) {
  if (e.recipe)
    for (const auto& [index, format] : e.recipe->layers)
      if (index == layer) return format;
  return "";
}

std::string layers_drawing(const SavedEvaluation& e, const std::vector<const SavedLayer*>& sorted) {
  std::vector<double> kls;
  for (const SavedLayer* layer : sorted) kls.push_back(layer->kl.value_or(0));
  const KlAxis axis = axis_of(kls);
  std::string body;
  double y = 2;
  for (const SavedLayer* layer : sorted) {
    const double width = layer->kl ? std::max(1.0, kBarWidth * height_of(*layer->kl, axis)) : kBarWidth;
    const std::string format = kept_format(e, layer->index);
    body += svg_text("a e", kBarLeft - 4, y + 9, "layer " + std::to_string(layer->index));
    body += svg_rect(layer->kl ? "bar" : "lost", kBarLeft, y, width, kBarHeight - 4);
    body += svg_text("", kBarLeft + width + 4, y + 9,
                     (layer->kl ? figure_text(*layer->kl) : "not finite") + (format.empty() ? "" : ", " + format));
    y += kBarHeight;
  }
  return drawing(kBarLeft + kBarWidth + 130, y + 2,
                 "layers by mean KL when each alone is rounded, on a logarithmic axis", body);
}

std::string layers(const SavedEvaluation& e) {
  if (e.layers.empty()) return "";
  std::vector<const SavedLayer*> sorted;
  for (const SavedLayer& layer : e.layers) sorted.push_back(&layer);
  constexpr double kAll = std::numeric_limits<double>::infinity();
  std::ranges::stable_sort(sorted, std::greater{}, [=](const SavedLayer* l) { return l->kl.value_or(kAll); });
  std::string left_out;
  if (sorted.size() > kMostBars) {
    left_out =
        "<p>" + grouped(static_cast<int64_t>(sorted.size() - kMostBars)) + " less sensitive ones are left out.</p>\n";
    sorted.resize(kMostBars);
  }
  const std::string on =
      e.n_sampled_prompts ? ", on " + grouped(*e.n_sampled_prompts) + " of " + grouped(e.n_prompts) + " prompts" : "";
  return "<h3>Layers by sensitivity</h3>\n<p>The mean KL when the cache of one layer alone is rounded" + on +
         ", on a logarithmic axis" + (e.recipe ? ", and its format in the recipe.</p>\n" : ".</p>\n") + "<figure>" +
         layers_drawing(e, sorted) + "</figure>\n" + left_out;
}

std::string recipe(const SavedEvaluation& e) {
  if (!e.recipe) return "";
  const SavedRecipe& r = *e.recipe;
  std::map<std::string, std::vector<int64_t>> by_format;
  for (const auto& [layer, format] : r.layers) by_format[format].push_back(layer);
  HtmlTable table("Layers by format", {{"format"}, {"layers"}});
  for (const auto& [format, indexes] : by_format) table.add_row({escaped(format), ranges_text(indexes)});
  return "<h3>Recipe</h3>\n<p>The cheapest choice that was found to keep the mean KL within " + figure_text(r.max_kl) +
         ": mean KL " + figure_text(r.kl) + ", measured, and " + grouped(r.bytes_per_token) +
         " bytes per token. <code>kvcal export --recipe</code> serves it.</p>\n" + table.html();
}

std::string answer_figures(const SavedEvaluation& e) {
  HtmlTable table("Answers of each variant, token by token against the reference's", {{"variant"},
                                                                                      {"equal", true},
                                                                                      {"tokens in common", true},
                                                                                      {"correct", true},
                                                                                      {"loops", true},
                                                                                      {"empty", true},
                                                                                      {"without end", true}});
  for (const SavedVariant& v : e.variants) {
    if (!v.answers) continue;
    const SavedAnswerCounts& c = *v.answers;
    table.add_row({escaped(v.name), grouped(c.n_equal) + " of " + grouped(c.n), share_in_percent(c.agreement),
                   c.n_expected > 0 ? grouped(c.n_correct) + " of " + grouped(c.n_expected) : "-", grouped(c.n_loops),
                   grouped(c.n_empty), grouped(c.n_endless)});
  }
  return table.html();
}

/// Text of several lines, escaped.
std::string lines_of_text(std::string_view text) {
  std::string html;
  for (size_t end; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1))
    html += escaped(text.substr(0, end)) + "<br/>";
  return html + escaped(text);
}

/// An answer as it is, what differs from the reference's marked.
std::string answer_text(const SavedAnswer& answer, size_t same) {
  const bool is_cut = answer.text.size() > kMostText;
  const std::string_view all = answer.text;
  const std::string_view text = all.substr(0, is_cut ? whole_characters(all, kMostText) : all.size());
  same = std::min(same, text.size());
  std::string html = "<div class=\"answer\">" + lines_of_text(text.substr(0, same));
  if (same < text.size()) html += "<mark>" + lines_of_text(text.substr(same)) + "</mark>";
  html += is_cut ? "<span class=\"of\"> (cut)</span>" : "";
  html += "</div><span class=\"of\">" + grouped(answer.n_tokens) + " tokens";
  if (!answer.ended) html += ", without end";
  if (answer.loop_period) html += ", loops over " + grouped(*answer.loop_period);
  if (answer.correct) html += *answer.correct ? ", right" : ", <strong>wrong</strong>";
  return html + "</span>";
}

std::string side_by_side(const SavedAnswers& a) {
  std::string html = "<details open=\"open\"><summary>" + escaped(a.prompt) + "</summary>\n<div class=\"sides\">";
  const auto side = [&](const std::string& name, const std::string& body) {
    html += "<div><strong>" + escaped(name) + "</strong>" + body + "</div>\n";
  };
  side("reference", answer_text(a.reference, a.reference.text.size()));
  for (const auto& [name, answer] : a.others)
    side(name + ", from token " + grouped(answer.first_divergence),
         answer_text(answer, common_beginning(a.reference.text, answer.text)));
  return html + "</div></details>\n";
}

std::string answers(const SavedEvaluation& e) {
  if (e.answers.empty()) return "";
  std::string html = "<h3>Answers</h3>\n" + answer_figures(e);
  size_t n_other = 0;
  std::string sides;
  for (const SavedAnswers& a : e.answers)
    if (!a.others.empty() && n_other++ < kMostPrompts) sides += side_by_side(a);
  if (n_other == 0) return html + "<p>Every variant answers every prompt as the reference does.</p>\n";
  html += "<p>Where answers diverge, from there on marked. An answer that differs is not a worse one.</p>\n" + sides;
  if (n_other > kMostPrompts)
    html += "<p>" + grouped(static_cast<int64_t>(n_other - kMostPrompts)) + " more prompts are in the file.</p>\n";
  return html;
}

}  // namespace

std::string evaluation_section(const ReportInput& input) {
  if (!input.evaluation) return "";
  const SavedEvaluation& e = *input.evaluation;
  return "<p>The whole model, run with its cache as it is (the reference) and as servers keep it: " +
         grouped(e.n_prompts) + " prompts, " + grouped(e.n_tokens) + " tokens, in " + escaped(e.precision) + ".</p>\n" +
         variants_table(e) + positions(e) + layers(e) + recipe(e) + answers(e);
}

}  // namespace kvcal
