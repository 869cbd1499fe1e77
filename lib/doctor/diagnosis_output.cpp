#include <algorithm>
#include <array>

#include "base/letter_case.h"
#include "doctor/diagnose.h"
#include "doctor/entry.h"

namespace kvcal {
namespace {

// What quoted() makes safe, without its quotation marks.
std::string safe(const std::string& text) {
  const std::string safe_text = quoted(text);
  return safe_text.substr(1, safe_text.size() - 2);
}

std::string place(const Evidence& e) {
  std::string text = e.file.empty() ? "" : e.file + (e.line > 0 ? ":" + std::to_string(e.line) : "");
  if (e.count > 1)
    text += " (" + std::to_string(e.count) + " times" +
            (e.n_ranks > 1 ? ", " + std::to_string(e.n_ranks) + " ranks" : "") + ")";
  if (!e.text.empty()) text += (text.empty() ? "" : " ") + quoted(e.text);
  return text;
}

Lines evidence_text(const Sign& sign) {
  constexpr size_t kShown = 4;
  Lines text;
  for (size_t i = 0; i < sign.evidence.size() && i < kShown; ++i)
    if (const std::string where = place(sign.evidence[i]); !where.empty()) text.add("  seen: " + where);
  if (sign.evidence.size() > kShown)
    text.add("  seen in " + std::to_string(sign.evidence.size() - kShown) + " more places");
  return text;
}

std::string sentence(const Sign& sign) {
  return std::string(sign.entry->meaning) + (sign.detail.empty() ? "" : " (" + safe(sign.detail) + ")");
}

Lines finding_text(const Sign& sign, const Facts& facts) {
  const Entry& e = *sign.entry;
  Lines text(std::string(name_of(sign.severity())) + " " + std::string(e.id) + ": " + sentence(sign));
  text += evidence_text(sign);
  text.add("  confidence: " + std::string(name_of(e.confidence)) +
           (e.source.empty() ? "" : "; " + std::string(e.source)));
  if (!e.not_proved.empty()) text.add("  does not prove: " + std::string(e.not_proved));
  if (const std::string fix = fix_text(e, facts); !fix.empty()) text.add("  fix: " + fix);
  return text + Lines("");
}

Lines note_text(const Sign& sign) {
  const Entry& e = *sign.entry;
  Lines text("  " + std::string(e.id) + ": " + sentence(sign));
  if (!e.not_proved.empty()) text.add("    does not prove: " + std::string(e.not_proved));
  for (const Evidence& evidence : sign.evidence)
    if (!evidence.file.empty()) return text + Lines("    seen: " + place(evidence));
  return text;
}

Lines inputs_text(const Diagnosis& d) {
  Lines text("Looked at:");
  for (const InputSummary& input : d.inputs)
    text.add("  " + input.name + ": " + input.kind +
             (input.kind == "log" ? ", " + std::to_string(input.n_lines) + " lines" : ""));
  if (d.facts.server != Engine::Unknown)
    text.add("  server: " + std::string(name_of(d.facts.server)) +
             (d.facts.version ? " " + str(*d.facts.version)
                              : ", version unknown (give it with --server, such as vllm@0.33.0)"));
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// An answer that looks sound to a program may not be; a text that is no log says little.
std::string nothing_matches(const Diagnosis& d) {
  const std::string none = "No known problem matches.";
  if (d.facts.has_output)
    return none + " Where the answer is wrong all the same: compare with " + control_of(d.facts) +
           " and nothing else changed.";
  const bool bare = d.notes.empty() && d.facts.is(Engine::Unknown) && !d.facts.checkpoint && !d.facts.scales;
  return bare ? none +
                    " What would tell more: the server's log from its first line on, the command that starts it "
                    "(--command), its model folder or config.json (--model), an answer (--output)."
              : none;
}

/// An answer is wrong, and what is known of these inputs may be harmless: the control comes first.
bool is_open(const Diagnosis& d) {
  const bool wrong = looks_broken(d.facts) || !d.facts.unanswered.empty() || !d.facts.tied_logits.empty();
  if (!wrong || d.explanations.empty()) return wrong;
  const Explanation& top = d.explanations.front();
  const bool controls = top.best->fix.find("{control}") != std::string_view::npos;
  return likelihood_of(top) == Likelihood::Possible && !controls;
}

/// What stopped the server, or a request, comes before what may be so as well.
Lines exception_text(const Diagnosis& d) {
  if (d.unknown_exception.empty()) return {};
  return Lines("No rule knows this exception of the log: " + place(d.facts.exception_from)) +
         Lines("  do: look for its words among the server's issues, and compare with " + control_of(d.facts));
}

Lines explanation_text(const Diagnosis& d) {
  Lines text = exception_text(d);
  if (d.findings.empty()) return text.empty() ? Lines(nothing_matches(d)) : text;
  if (is_open(d))
    text.add("No known problem explains this: compare with " + control_of(d.facts) +
             " and nothing else changed. What rounding the cache does alone: kvcal evaluate " + model_name(d.facts) +
             " --generate");
  else if (d.explanations.empty())
    text.add("What follows explains no wrong answer.");
  if (d.explanations.empty()) return text;
  const Explanation& top = d.explanations.front();
  text.add(std::string(likelihood_of(top) == Likelihood::Possible ? "Possible: " : "Most likely: ") +
           title_of(top.cause, d.facts.cache) + " [" + std::string(name_of(likelihood_of(top))) + "; " +
           joined(top.because) + "]");
  if (const std::string fix = fix_text(*top.best, d.facts); !fix.empty()) text.add("  do: " + fix);
  for (size_t i = 1; i < d.explanations.size(); ++i) {
    const Explanation& e = d.explanations[i];
    text.add("Also: " + title_of(e.cause, d.facts.cache) + " [" + std::string(name_of(likelihood_of(e))) + "; " +
             joined(e.because) + "]");
  }
  return text;
}

// Broken output and a cache that may or may not be quantized: the first question.
Lines open_question(const Diagnosis& d) {
  const bool asks = d.facts.cache.quantized == Trait::Unknown && d.facts.has_output && !d.findings.empty();
  return asks ? Lines("Not known here: whether the cache is quantized; would settle it: " +
                      printable(d.facts.cache.open))
              : Lines();
}

Json json_of(const Evidence& e) {
  Json json = Json::object();
  json["file"] = e.file;
  if (e.line > 0) json["line"] = e.line;
  if (!e.text.empty()) json["text"] = safe(e.text);
  json["count"] = e.count;
  if (e.n_ranks > 0) json["ranks"] = e.n_ranks;
  return json;
}

Json json_of(const Entry& e) {
  Json json = {{"id", e.id},           {"severity", name_of(e.severity)}, {"confidence", name_of(e.confidence)},
               {"meaning", e.meaning}, {"does_not_prove", e.not_proved},  {"fix", e.fix},
               {"source", e.source}};
  if (e.cause != Cause::None) json["cause"] = name_of(e.cause);
  return json;
}

Json json_of(const Sign& sign, const Facts& facts) {
  Json json = json_of(*sign.entry);
  json["severity"] = name_of(sign.severity());
  json["fix"] = fix_text(*sign.entry, facts);
  json["detail"] = safe(sign.detail);
  json["evidence"] = Json::array();
  for (const Evidence& e : sign.evidence) json["evidence"].push_back(json_of(e));
  return json;
}

Json json_of(const Explanation& e, const Facts& facts) {
  return {{"cause", name_of(e.cause)},
          {"title", title_of(e.cause, facts.cache)},
          {"likelihood", name_of(likelihood_of(e))},
          {"because", e.because},
          {"fix", fix_text(*e.best, facts)}};
}

std::vector<const Entry*> catalog() {
  std::vector<const Entry*> entries;
  for (const auto lines : {vllm_lines(), vllm_load_lines(), sglang_lines(), other_lines()})
    for (const LogLine& line : lines) entries.push_back(&line.entry);
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules) entries.push_back(&rule.entry);
  return entries;
}

}  // namespace

Lines diagnosis_text(const Diagnosis& d) {
  Lines text = explanation_text(d) + open_question(d) + Lines("");
  for (const Sign& sign : d.findings) text += finding_text(sign, d.facts);
  if (!d.notes.empty()) text.add("Seen, and no finding:");
  for (const Sign& sign : d.notes) text += note_text(sign);
  if (!d.notes.empty()) text.add("");
  text += inputs_text(d);
  if (!d.not_evaluated.empty())
    text.add(std::to_string(d.not_evaluated.size()) +
             " rules not evaluated, since something is not known: --facts says what would settle it");
  return text;
}

Json diagnosis_json(const Diagnosis& d) {
  Json json = Json::object();
  json["inputs"] = Json::array();
  for (const InputSummary& i : d.inputs)
    json["inputs"].push_back({{"name", i.name}, {"kind", i.kind}, {"lines", i.n_lines}, {"bytes", i.n_bytes}});
  json["server"] = d.facts.server == Engine::Unknown ? Json() : Json(name_of(d.facts.server));
  json["version"] = d.facts.version ? Json(str(*d.facts.version)) : Json();
  json["facts"] = facts_json(d.facts);
  json["findings"] = Json::array();
  for (const Sign& sign : d.findings) json["findings"].push_back(json_of(sign, d.facts));
  json["notes"] = Json::array();
  for (const Sign& sign : d.notes) json["notes"].push_back(json_of(sign, d.facts));
  json["compare_first"] = is_open(d) ? Json(control_of(d.facts)) : Json();
  json["unknown_exception"] = d.unknown_exception.empty() ? Json() : json_of(d.facts.exception_from);
  json["explanations"] = Json::array();
  for (const Explanation& e : d.explanations) json["explanations"].push_back(json_of(e, d.facts));
  json["not_evaluated"] = Json::array();
  for (const auto& skipped : d.not_evaluated)
    json["not_evaluated"].push_back({{"id", skipped.id}, {"missing", skipped.missing}});
  return json;
}

std::vector<const Entry*> catalog_named(std::string_view id) {
  std::vector<const Entry*> found = catalog();
  std::erase_if(found, [&](const Entry* e) { return !same_but_for_case(e->id, id); });
  return found;
}

Lines catalog_text() {
  Lines text;
  for (const Entry* e : catalog())
    text.add(std::string(e->id) + "  " + std::string(name_of(e->severity)) + "  " + std::string(e->meaning));
  return text;
}

Json catalog_json() {
  Json json = Json::array();
  for (const Entry* e : catalog()) {
    json.push_back(json_of(*e));
    json.back()["fix"] = general_fix(*e);
    if (e->cause != Cause::None) json.back()["cause_title"] = title_of(e->cause, {});
  }
  return json;
}

}  // namespace kvcal
