#include "report/markdown.h"

#include "base/number_text.h"
#include "report/estimates.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

/// Text that is neither markup nor a mention.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : escaped(text))
    out += std::string_view("|`*[]\\@~$").find(c) == std::string_view::npos
               ? std::string(1, c)
               : "&#" + std::to_string(static_cast<int>(c)) + ";";
  return out;
}

std::string hash(const std::string& sha256) { return "`" + plain(sha256.substr(0, 12)) + "`"; }

std::string row(const SavedVariant& v, const SavedConclusion::Variant* concluded, bool is_shown, bool floor) {
  const std::string title = plain(variant_title(v.name)), none = "-";
  const SavedAnswerCounts* c = v.answers && v.answers->n_expected > 0 ? &*v.answers : nullptr;
  std::string cells = "| " + (is_shown ? "**" + title + "** (these scales)" : title) + " | ";
  if (concluded)
    cells += (concluded->kl ? kl_estimate(*concluded->kl) : "not finite") + " | " + share_estimate(concluded->top1);
  else
    cells += (v.all.kl ? figure_text(v.all.kl->mean) : "not finite") + " | " +
             (v.all.top1 ? share_in_percent(*v.all.top1) : none);
  cells += " | " + (c ? grouped(c->n_correct) + " of " + grouped(c->n_expected) : none) + " |";
  if (floor) cells += " " + (concluded && concluded->times_floor ? kl_estimate(*concluded->times_floor) : none) + " |";
  return cells + "\n";
}

const SavedConclusion::Variant* concluded_of(const SavedEvaluation& e, const std::string& name) {
  if (!e.conclusion) return nullptr;
  for (const auto& [variant, figures] : e.conclusion->variants)
    if (variant == name) return &figures;
  return nullptr;
}

std::string table(const ReportInput& input) {
  const SavedEvaluation& e = *input.evaluation;
  const bool floor = std::ranges::any_of(e.variants, [&](const SavedVariant& v) {
    const auto* concluded = concluded_of(e, v.name);
    return concluded && concluded->times_floor;
  });
  std::string text = "| KV cache | mean KL | same top token | right answers |";
  text += floor ? " times the floor |\n|---|---|---|---|---|\n" : "\n|---|---|---|---|\n";
  for (const SavedVariant& v : e.variants)
    if (v.name != "reference") text += row(v, concluded_of(e, v.name), &v == variant_shown(input), floor);
  return text;
}

}  // namespace

std::string report_markdown(const ReportInput& input) {
  const SavedEvaluation& e = *input.evaluation;
  const Artifact& a = input.artifact;
  std::string text = "**KV cache of " + plain(a.model.architecture) + " in " + plain(a.quantization.dtype) +
                     "**, against the cache in 16 bits: " + grouped(e.n_prompts) + " prompts, " + grouped(e.n_tokens) +
                     " tokens, " + plain(e.precision) +
                     (e.attention.empty() ? "" : ", attention of " + plain(e.attention)) +
                     ". In brackets intervals of 95 %.\n\n" + table(input) + "\n";
  for (const std::string& answer : answer_sentences(a)) text += "- " + plain(answer) + "\n";
  if (e.conclusion)
    for (const std::string& sentence : pair_sentences(*e.conclusion)) text += "- " + plain(sentence) + ".\n";
  return text + "\nWeights " + hash(a.model.weights_fingerprint) + ", prompts " + hash(e.prompts_sha256) +
         ", measured with " + hash(a.calibration.prompts_sha256) + "; " + plain(e.tool_version) + ", " + plain(e.isa) +
         ".\n";
}

}  // namespace kvcal
