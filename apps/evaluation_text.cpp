#include "evaluation_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/error.h"
#include "base/number_text.h"
#include "evaluate/formats.h"
#include "table.h"

namespace kvcal {
namespace {

std::vector<std::string> cells_of(const PredictionFigures& f) {
  return {formatted("%.3g", f.kl.mean), formatted("%.3g", f.kl.p99), formatted("%.2f %%", 100 * f.top1),
          formatted("%.4f", std::exp(f.nll)), formatted("%.4f", std::exp(f.nll_reference))};
}

Table table_of(std::vector<Table::Column> columns) {
  using enum Table::Align;
  for (const char* title : {"mean KL", "KL of 99 %", "same top token", "perplexity"}) columns.push_back({title, Right});
  columns.push_back({"of the reference", Right, 3});
  return Table(columns);
}

void add_row(Table& table, std::vector<std::string> cells, const PredictionFigures& f) {
  std::ranges::move(cells_of(f), std::back_inserter(cells));
  table.add_row(std::move(cells));
}

/// How far single layers tell what all of them do. In bf16 the KL of each has the steps of bf16 in it.
Lines sum_text(Precision precision, double sum, const EvaluationFigures& figures) {
  const std::string all =
      "all of them together (" + figures.whole_name + "): " + formatted("%.3g", figures.whole.kl.mean);
  if (precision == Precision::F32) return Lines("sum of their mean KL: " + formatted("%.3g", sum) + ", " + all);
  return Lines(all + "; in bf16 the KLs of single layers cannot be added (--precision f32)");
}

/// The layer in which a variant's rows are off by most, in percent; none: that site is as it is.
std::pair<std::string, std::string> worst_cells(const VariantFigures& v, std::optional<double> LayerErrors::*site) {
  const LayerErrors* worst = nullptr;
  for (const LayerErrors& layer : v.errors)
    if (layer.*site && (!worst || *(layer.*site) > *(worst->*site))) worst = &layer;
  if (!worst) return {"-", "-"};
  const double error = *(worst->*site);
  return {std::isfinite(error) ? formatted(error < 10 ? "%.3g %%" : "%.0f %%", 100 * error) : "not finite",
          std::to_string(worst->index)};
}

/// What is lost of the rows themselves, beside what that does to predictions.
Lines errors_text(const EvaluationFigures& figures) {
  using enum Table::Align;
  const bool of_latent = std::ranges::any_of(figures.variants, [](const VariantFigures& v) {
    return std::ranges::any_of(v.errors, [](const LayerErrors& e) { return e.latent.has_value(); });
  });
  Table table(of_latent ? std::vector<Table::Column>{{"error of"}, {"rows", Right}, {"layer", Right}}
                        : std::vector<Table::Column>{
                              {"error of"}, {"keys", Right}, {"layer", Right}, {"values", Right}, {"layer", Right}});
  bool any = false;
  for (const VariantFigures& v : figures.variants) {
    if (v.errors.empty()) continue;
    any = true;
    const auto [first, first_layer] = worst_cells(v, of_latent ? &LayerErrors::latent : &LayerErrors::key);
    const auto [value, value_layer] = worst_cells(v, &LayerErrors::value);
    table.add_row(of_latent ? std::vector{v.name, first, first_layer}
                            : std::vector{v.name, first, first_layer, value, value_layer});
  }
  return any ? Lines("") + table.text() +
                   Lines("relative RMS error of rows that come back, of the worst head in the worst layer.")
             : Lines();
}

Lines predictions_text(const Evaluation& evaluation, const EvaluationFigures& figures) {
  Table variants = table_of({{"variant"}, {"format", Table::Align::Left, 2}});
  for (const VariantFigures& v : figures.variants) add_row(variants, {v.name, v.format}, v.all);
  const Lines all = variants.text() + errors_text(figures);
  if (figures.layers.empty()) return all;
  Table layers = table_of({{"layer", Table::Align::Right}});
  double sum = 0;
  for (const LayerFigures& layer : figures.layers) {
    add_row(layers, {std::to_string(layer.index)}, layer.all);
    sum += layer.all.kl.mean;
  }
  const std::string on = evaluation.sample ? ", on " + std::to_string(evaluation.sample->n_prompts) + " of " +
                                                 std::to_string(evaluation.prompts.size()) + " prompts"
                                           : "";
  return all + Lines("") + Lines("each layer alone" + on + ":") + layers.text() +
         sum_text(evaluation.precision, sum, figures);
}

std::string share_of(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : formatted("%.1f %%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

Lines answers_text(const EvaluationFigures& figures) {
  using enum Table::Align;
  Table table({{"answers of"},
               {"equal", Right},
               {"tokens in common", Right},
               {"loops", Right},
               {"empty", Right},
               {"without end", Right},
               {"correct", Right}});
  for (const VariantFigures& v : figures.variants) {
    if (!v.answers) return {};
    const AnswerFigures& a = *v.answers;
    table.add_row({v.name, share_of(a.n_equal, a.n_answers), formatted("%.1f %%", 100 * a.agreement),
                   std::to_string(a.n_loops), std::to_string(a.n_empty), std::to_string(a.n_endless),
                   share_of(a.n_correct, a.n_expected)});
  }
  return Lines("") + table.text();
}

/// Shares of right answers: a row a tag, a column a variant.
Lines right_by_tag_text(const EvaluationFigures& figures) {
  std::vector<Table::Column> columns = {{"correct"}};
  for (const VariantFigures& v : figures.variants) columns.push_back({v.name, Table::Align::Right});
  Table table(columns);
  bool any = false;
  for (const auto& [tag, expected] : figures.variants[0].right_by_tag) {
    if (expected.n_expected == 0) continue;
    any = true;
    std::vector<std::string> cells = {printable(tag, 40)};
    for (const VariantFigures& v : figures.variants) {
      const RightAnswers& right = v.right_by_tag.at(tag);
      cells.push_back(share_of(right.n_correct, right.n_expected));
    }
    table.add_row(std::move(cells));
  }
  return any ? Lines("") + table.text() : Lines();
}

/// Which needles were found: a row a variant and length, a column a depth.
Lines needles_text(const EvaluationFigures& figures, const NeedleOptions& needles) {
  std::vector<Table::Column> columns = {{"needles found by"}, {"tokens", Table::Align::Right}};
  for (const int64_t depth : needles.depths) columns.push_back({std::to_string(depth) + " %", Table::Align::Right});
  Table table(columns);
  for (const VariantFigures& v : figures.variants)
    for (const int64_t length : needles.lengths) {
      std::vector<std::string> cells = {v.name, grouped(length)};
      for (const int64_t depth : needles.depths)
        cells.emplace_back(v.right_by_tag.at(needle_tag(length, depth)).n_correct > 0 ? "yes" : "no");
      table.add_row(std::move(cells));
    }
  return Lines("") + table.text();
}

Lines recipe_text(const Evaluation& evaluation) {
  if (!evaluation.recipe) return {};
  const EvaluatedRecipe& recipe = *evaluation.recipe;
  std::map<std::string, std::vector<int64_t>> layers;
  for (const auto& [index, format] : recipe.layers) layers[format].push_back(index);
  const RecipeLimits& limits = recipe.limits;
  std::string found = "recipe: mean KL " + formatted("%.3g", recipe.found.measured.kl) + " (limit " +
                      formatted("%.3g", limits.max_kl) + "), ";
  if (limits.min_top1 > 0)
    found += "same top token " + formatted("%.2f %%", 100 * recipe.found.measured.top1) + " (limit " +
             formatted("%.4g %%", 100 * limits.min_top1) + "), ";
  Lines text("");
  text.add(found + grouped(recipe.found.bytes) + " bytes per token");
  for (const auto& [format, indices] : layers) text.add("  " + format + ": layer " + ranges_text(indices));
  for (const auto& [format, indices] : layers)
    if (format != "bf16" && !stored_format(format).is_served())
      text.add("  no released server reads " + format + " from a checkpoint: this is what it would buy");
  return text;
}

/// What the run itself vouches for, and where a variant's numbers end.
Lines notes_of(const Evaluation& evaluation, const EvaluationFigures& figures) {
  Lines notes("reference against itself: KL 0 on " + grouped(evaluation.n_tokens_twice) + " tokens");
  for (const VariantFigures& v : figures.variants)
    if (v.all.n_not_finite > 0)
      notes.add(v.name + ": no finite logits after " + grouped(v.all.n_not_finite) + " of " + grouped(v.all.n_tokens) +
                " tokens; its other figures leave them out");
  return notes;
}

}  // namespace

Lines result_text(const Evaluation& evaluation, const EvaluationFigures& figures, const NeedleOptions& needles) {
  return predictions_text(evaluation, figures) + answers_text(figures) +
         (needles.lengths.empty() ? right_by_tag_text(figures) : needles_text(figures, needles)) +
         recipe_text(evaluation) + notes_of(evaluation, figures);
}

}  // namespace kvcal
