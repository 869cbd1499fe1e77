// What evaluate measured: variants, charts, and answers side by side. The recipe stands in the summary.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/number_text.h"
#include "base/portable_math.h"
#include "report/estimates.h"
#include "report/evaluation_geometry.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {

namespace {

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

namespace {

constexpr size_t kMostPrompts = 40;  // whose answers are shown
constexpr size_t kOpenPrompts = 5;   // of these in sight
constexpr size_t kMostText = 4000;   // bytes of an answer

std::string kl_figure(const std::optional<SavedKl>& kl, double SavedKl::*figure) {
  return kl ? figure_text((*kl).*figure) : "not finite";
}

std::string perplexity(const std::optional<double>& nll) { return nll ? formatted("%.4f", portable_exp(*nll)) : "-"; }

/// "2.6 %, layer 3": where a variant's rows are off by most.
std::string worst_error(const SavedVariant& v, std::optional<double> SavedRowErrors::*site) {
  const SavedRowErrors* worst = nullptr;
  for (const SavedRowErrors& layer : v.errors)
    if (layer.*site && (!worst || *(layer.*site) > *(worst->*site))) worst = &layer;
  if (!worst) return "-";
  const double error = *(worst->*site);
  return (std::isfinite(error) ? formatted(error < 10 ? "%.3g %%" : "%.0f %%", 100 * error) : "not finite") +
         ", layer " + std::to_string(worst->index);
}

/// What is lost of the rows themselves; "" where the file does not say.
std::string errors_table(const SavedEvaluation& e) {
  HtmlTable table("How far the rows of the cache are off, in the worst layer and head: relative RMS error",
                  {{"variant"}, {"mean KL", true}, {"keys", true}, {"values", true}, {"latent rows", true}});
  for (const SavedVariant& v : e.variants)
    if (!v.errors.empty())
      table.add_row({escaped(v.name), kl_figure(v.all.kl, &SavedKl::mean), worst_error(v, &SavedRowErrors::key),
                     worst_error(v, &SavedRowErrors::value), worst_error(v, &SavedRowErrors::latent)});
  return table.empty() ? "" : table.html();
}

std::string variants_table(const SavedEvaluation& e) {
  HtmlTable table("How far predictions of the next token move: KL in nats, by tokens of the prompts",
                  {{"variant"},
                   {"mean KL", true},
                   {"KL of 99 %", true},
                   {"worst KL", true},
                   {"same top token", true},
                   {"perplexity", true},
                   {"not finite", true},
                   {"format"}});
  for (const SavedVariant& v : e.variants)
    table.add_row({escaped(v.name), kl_figure(v.all.kl, &SavedKl::mean), kl_figure(v.all.kl, &SavedKl::p99),
                   kl_figure(v.all.kl, &SavedKl::worst), v.all.top1 ? share_in_percent(*v.all.top1) : "-",
                   perplexity(v.all.nll), grouped(v.all.n_not_finite), escaped(v.format)});
  return table.html() +
         "<p class=\"help\">swapped: the file's scales of keys and values exchanged, which shows whether scales matter "
         "here at all. floor: no rounding of the cache, sums in another order, below which differences mean "
         "nothing.</p>\n";
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

/// Variants that give one answer stand together.
struct Given {
  std::string names;
  const SavedAnswer* answer = nullptr;
};

std::vector<Given> different_answers(const SavedAnswers& a) {
  std::vector<Given> given;
  for (const auto& [name, answer] : a.others) {
    const auto same = [&one = answer](const Given& g) {
      return g.answer->text == one.text && g.answer->first_divergence == one.first_divergence;
    };
    if (const auto it = std::ranges::find_if(given, same); it != given.end())
      it->names += ", " + name;
    else
      given.push_back({name, &answer});
  }
  return given;
}

/// "a: scale_1.0, swapped from token 2, wrong; file from token 5"
std::string title_of(const SavedAnswers& a, const std::vector<Given>& given) {
  std::string text;
  for (const Given& g : given)
    text += (text.empty() ? "" : "; ") + g.names + " from token " + grouped(g.answer->first_divergence) +
            (g.answer->correct == false ? ", wrong" : "");
  return a.prompt + ": " + text;
}

std::string side_by_side(const SavedAnswers& a) {
  std::string html = "<div class=\"sides\">";
  const auto side = [&](const std::string& name, const std::string& body) {
    html += "<div><strong>" + escaped(name) + "</strong>" + body + "</div>\n";
  };
  side("reference", answer_text(a.reference, a.reference.text.size()));
  const std::vector<Given> given = different_answers(a);
  for (const Given& g : given)
    side(g.names + ", from token " + grouped(g.answer->first_divergence),
         answer_text(*g.answer, common_beginning(a.reference.text, g.answer->text)));
  return fold(title_of(a, given), html + "</div>\n");
}

std::string answers(const SavedEvaluation& e) {
  if (e.answers.empty()) return "";
  std::string html = "<h3>Answers</h3>\n" + answer_figures(e);
  size_t n_other = 0;
  std::string sides, rest;
  for (const SavedAnswers& a : e.answers)
    if (!a.others.empty() && n_other++ < kMostPrompts) (n_other > kOpenPrompts ? rest : sides) += side_by_side(a);
  if (n_other == 0) return html + "<p>Every variant answers every prompt as the reference does.</p>\n";
  html +=
      "<p>Where answers diverge, from there on marked. An answer that differs need not be a worse one.</p>\n" + sides;
  if (!rest.empty()) html += fold("Further prompts", rest);
  if (n_other > kMostPrompts)
    html += "<p>" + grouped(static_cast<int64_t>(n_other - kMostPrompts)) + " more prompts are in the file.</p>\n";
  return html;
}

}  // namespace

std::string evaluation_section(const ReportInput& input) {
  if (!input.evaluation) return "";
  const SavedEvaluation& e = *input.evaluation;
  return "<p>The whole model, run with its cache as it is (the reference) and as servers keep it: " +
         grouped(e.n_prompts) + " prompts, " + grouped(e.n_tokens) + " tokens, " + how_evaluated(e, escaped) +
         ".</p>\n" + variants_table(e) + errors_table(e) + conclusion_text(e) + evaluation_charts(e) + answers(e);
}

}  // namespace kvcal
