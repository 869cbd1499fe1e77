// What an evaluation adds to the summary: its figures beside the two answers, and what follows for what to do.
#include <algorithm>
#include <map>

#include "artifact/delivery.h"
#include "base/number_text.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

constexpr size_t kListedVariants = 6, kListedLayers = 5, kListedRanks = 8;

const SavedVariant* variant_named(const SavedEvaluation& e, std::string_view name) {
  const auto it = std::ranges::find(e.variants, name, &SavedVariant::name);
  return it == e.variants.end() ? nullptr : &*it;
}

std::string count_of(int64_t n, int64_t all) { return grouped(n) + " of " + grouped(all); }

std::string list_of(const std::vector<int64_t>& layers) { return "layer(s) " + ranges_text(layers); }

std::string variants_table(const ReportInput& input) {
  HtmlTable table("Against the model with its cache as it is",
                  {{"variant"}, {"mean KL", true}, {"same top", true}, {"answers equal", true}, {"right", true}});
  size_t n = 0;
  for (const SavedVariant& v : input.evaluation->variants) {
    if (n++ > kListedVariants) break;  // the reference is not one
    const bool is_shown = &v == variant_shown(input);
    const auto& c = v.answers;
    table.add_row({escaped(v.name) + (is_shown ? " <strong>(these scales)</strong>" : ""),
                   v.all.kl ? figure_text(v.all.kl->mean) : "not finite",
                   v.all.top1 ? share_in_percent(*v.all.top1) : "-", c ? count_of(c->n_equal, c->n) : "-",
                   c && c->n_expected > 0 ? count_of(c->n_correct, c->n_expected) : "-"});
  }
  return table.html();
}

std::string sensitive_layers(const SavedEvaluation& e) {
  if (e.layers.empty()) return "";
  std::string text;
  const std::vector<const SavedLayer*> sorted = by_sensitivity(e);
  for (size_t i = 0; i < std::min(sorted.size(), kListedLayers); ++i)
    text += (text.empty() ? "" : ", ") + std::to_string(sorted[i]->index) + " (" +
            (sorted[i]->kl ? figure_text(*sorted[i]->kl) : "not finite") + ")";
  return "<p><strong>Most sensitive layers:</strong> " + text + ": mean KL when that layer alone is rounded.</p>\n";
}

/// "bf16 in layer(s) 3; fp8_e4m3 in layer(s) 7"
std::string formats_of(const SavedRecipe& recipe) {
  std::map<std::string, std::vector<int64_t>> by_format;
  for (const auto& [layer, format] : recipe.layers) by_format[format].push_back(layer);
  std::string text;
  for (const auto& [format, indexes] : by_format)
    text += (text.empty() ? "" : "; ") + escaped(format) + " in layer(s) " + ranges_text(indexes);
  return text;
}

std::string recipe_text(const SavedEvaluation& e) {
  if (!e.recipe) return "";
  const SavedRecipe& r = *e.recipe;
  return "<p><strong>Recipe</strong>, the cheapest choice that was found to keep the mean KL within " +
         figure_text(r.max_kl) + ": " + formats_of(r) + "; mean KL " + figure_text(r.kl) + ", measured, " +
         grouped(r.bytes_per_token) + " bytes per token.</p>\n";
}

/// " Attention changes most in layer(s) 2, 4; by measured KL, of 30 layers, layer 2 is no. 1, layer 4 no. 12."
std::string changed_text(const SavedEvaluation& e, const std::vector<int64_t>& layers) {
  const std::vector<const SavedLayer*> sorted = by_sensitivity(e);
  std::string ranks;
  for (size_t i = 0; i < std::min(layers.size(), kListedRanks); ++i)
    if (const auto it = std::ranges::find(sorted, layers[i], &SavedLayer::index); it != sorted.end())
      ranks += (ranks.empty() ? "" : ", ") + std::string("layer ") + std::to_string(layers[i]) +
               (ranks.empty() ? " is no. " : " no. ") + std::to_string(it - sorted.begin() + 1);
  return " Attention changes most in " + list_of(layers) +
         (ranks.empty() ? "." : "; by measured KL, of " + std::to_string(sorted.size()) + " layers, " + ranks + ".");
}

/// "4 of 6 are the reference's, 5 of 6 are right (of the reference's 6)"
std::string answers_text(const SavedEvaluation& e, const SavedAnswerCounts& c) {
  std::string text = c.n_equal == c.n ? "all " + grouped(c.n) + " are the reference&#39;s, token by token"
                                      : count_of(c.n_equal, c.n) + " are the reference&#39;s, token by token";
  if (c.n_expected > 0) {
    text += "; " + count_of(c.n_correct, c.n_expected) + " are right";
    if (const auto& reference = e.variants.front().answers)
      text += ", of the reference&#39;s " + grouped(reference->n_correct);
  }
  return text + (c.n_equal == c.n ? "." : ". <a href=\"#evaluation\">Read those that differ.</a>");
}

}  // namespace

// Where all scales are 1.0, so is scale_1.0.
const SavedVariant* variant_shown(const ReportInput& input) {
  if (!input.evaluation) return nullptr;
  if (const SavedVariant* v = variant_named(*input.evaluation, input.evaluated_as)) return v;
  const SavedVariant* one = variant_named(*input.evaluation, "scale_1.0");
  const bool is_same = one && one->format == input.artifact.quantization.dtype && serves_as_it_is(input.artifact);
  return is_same ? one : nullptr;
}

std::vector<const SavedLayer*> by_sensitivity(const SavedEvaluation& e) {
  std::vector<const SavedLayer*> sorted;
  for (const SavedLayer& layer : e.layers) sorted.push_back(&layer);
  // What is not finite is the worst.
  std::ranges::stable_sort(sorted, std::greater{},
                           [](const SavedLayer* l) { return std::pair(!l->kl, l->kl.value_or(0)); });
  return sorted;
}

std::string evaluation_box(const ReportInput& input) {
  if (!input.evaluation) return "";
  const SavedEvaluation& e = *input.evaluation;
  return "<div class=\"evaluated\">\n<h3>What the evaluation measured</h3>\n<p>" + grouped(e.n_prompts) + " prompts, " +
         grouped(e.n_tokens) + " tokens." +
         (variant_shown(input) ? "" : " None of its variants is known to have the scales of this page.") + "</p>\n" +
         variants_table(input) + sensitive_layers(e) + recipe_text(e) +
         "<p><a href=\"#evaluation\">All of it</a></p>\n</div>\n";
}

std::string answers_item(const ReportInput& input, const std::vector<int64_t>& changed) {
  const SavedVariant* shown = variant_shown(input);
  if (shown && shown->answers)
    return "The evaluation compared answers: with these scales " + answers_text(*input.evaluation, *shown->answers) +
           (changed.empty() ? "" : changed_text(*input.evaluation, changed));
  if (changed.empty()) return "";
  if (shown) return "The evaluation compared no answers." + changed_text(*input.evaluation, changed);
  return "Attention changes most in " + list_of(changed) +
         "; what that does to answers, <code>kvcal evaluate --per-layer --generate</code> measures.";
}

std::string recipe_item(const ReportInput& input) {
  // Export asks for the very file.
  if (!input.evaluation || !input.evaluation->recipe || input.evaluated_as.empty()) return "";
  const SavedRecipe& r = *input.evaluation->recipe;
  return "To keep the mean KL within " + figure_text(r.max_kl) + ", serve the evaluation's recipe, " + formats_of(r) +
         ": <code>kvcal export --recipe</code> writes what a server needs for it.";
}

std::string measured_without_scales(const ReportInput& input) {
  const SavedVariant* shown = variant_shown(input);
  const SavedVariant* one = shown ? variant_named(*input.evaluation, "scale_1.0") : nullptr;
  if (!one || !one->all.kl || !shown->all.kl || one->all.kl->mean == shown->all.kl->mean) return "";
  return "Measured: mean KL " + figure_text(shown->all.kl->mean) + " with these scales, " +
         figure_text(one->all.kl->mean) + " at scale 1.0.";
}

}  // namespace kvcal
