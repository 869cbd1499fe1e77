#include "report/markdown.h"

#include <algorithm>

#include "base/number_text.h"
#include "report/estimates.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

/// A stranger's text as code, which is neither markup nor a link nor a mention: what would end it, or a cell of a
/// table, is replaced.
std::string code(std::string_view text) {
  std::string out = "`";
  for (const char c : printable(text, 80)) out += c == '`' || c == '|' ? '?' : c;
  return out + "`";
}

std::string hash(const std::string& sha256) { return code(sha256.substr(0, 12)); }

bool has_floor(const SavedEvaluation& e) { return e.conclusion && !e.conclusion->times_floor.empty(); }

bool has_interval(const SavedConclusion& c) {
  return std::ranges::any_of(c.variants, [](const auto& v) { return v.second.top1.interval.has_value(); });
}

std::string row(const SavedEvaluation& e, const SavedVariant& v, bool is_shown) {
  const std::string none = "-";
  const SavedAnswerCounts* c = v.answers && v.answers->n_expected > 0 ? &*v.answers : nullptr;
  const SavedConclusion::Variant* concluded = e.conclusion ? e.conclusion->of(v.name) : nullptr;
  std::string cells = "| " + code(v.name) + (is_shown ? ", these scales" : "") + " | ";
  if (concluded)
    cells += (concluded->kl ? kl_estimate(*concluded->kl) : "not finite") + " | " + share_estimate(concluded->top1);
  else
    cells += (v.all.kl ? figure_text(v.all.kl->mean) : "not finite") + " | " +
             (v.all.top1 ? share_in_percent(*v.all.top1) : none);
  cells += " | " + (c ? grouped(c->n_correct) + " of " + grouped(c->n_expected) : none) + " |";
  if (!has_floor(e)) return cells + "\n";
  const SavedEstimate* times = e.conclusion->times_of(v.name);
  return cells + " " + (times ? times_estimate(*times) : none) + " |\n";
}

std::string table(const ReportInput& input) {
  const SavedEvaluation& e = *input.evaluation;
  std::string text = "| KV cache | mean KL | same top token | right answers |";
  text += has_floor(e) ? " times the floor |\n|---|---|---|---|---|\n" : "\n|---|---|---|---|\n";
  for (const SavedVariant& v : e.variants)
    if (v.name != "reference") text += row(e, v, &v == variant_shown(input));
  return text;
}

}  // namespace

std::string report_markdown(const ReportInput& input) {
  const SavedEvaluation& e = *input.evaluation;
  const Artifact& a = input.artifact;
  std::string text = "**KV cache of " + code(a.model.architecture) + " in " + code(a.quantization.dtype) +
                     "**, against the cache as it is: " + grouped(e.n_prompts) + " prompts, " + grouped(e.n_tokens) +
                     " tokens, " + how_evaluated(e, code) + "." +
                     (e.conclusion && has_interval(*e.conclusion) ? " In brackets intervals of 95 %." : "") + "\n\n" +
                     table(input) + "\n";
  if (!variant_shown(input)) text += "- No row is known to have the scales of " + code(input.source) + ".\n";
  for (const std::string& answer : answer_sentences(a)) text += "- " + answer + "\n";
  if (e.conclusion)
    for (const std::string& sentence : pair_sentences(*e.conclusion, code)) text += "- " + sentence + ".\n";
  return text + "\nWeights " + hash(a.model.weights_fingerprint) + ", prompts " + hash(e.prompts_sha256) +
         ", measured with " + hash(a.calibration.prompts_sha256) + "; " + code(e.tool_version) + ", " + code(e.isa) +
         ".\n";
}

}  // namespace kvcal
