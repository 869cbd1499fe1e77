// kvcal explain ID...: what a finding of validate or doctor means, how it comes about and what to do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/letter_case.h"
#include "check/rules.h"
#include "doctor/diagnose.h"
#include "finding_origins.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

/// The paragraphs below "## ID", as one line each; empty for a finding that needs none.
std::vector<std::string> origin_of(std::string_view id) {
  const std::string heading = "\n## " + std::string(id) + "\n";
  const std::string_view all = finding_origins();
  size_t at = all.find(heading);
  if (at == std::string_view::npos) return {};
  at += heading.size();
  std::string_view section = all.substr(at, all.find("\n## ", at) - at);
  std::vector<std::string> paragraphs = {""};
  while (!section.empty()) {
    const size_t end = std::min(section.find('\n'), section.size());
    const std::string_view line = section.substr(0, end);
    if (!line.empty())
      paragraphs.back() += (paragraphs.back().empty() ? "" : " ") + std::string(line);
    else if (!paragraphs.back().empty())
      paragraphs.emplace_back();
    section.remove_prefix(std::min(end + 1, section.size()));
  }
  if (paragraphs.back().empty()) paragraphs.pop_back();
  return paragraphs;
}

/// Labelled lines, none of them twice: a log line that is recognized in several ways has several entries.
class Labelled {
 public:
  void add(std::string_view label, std::string_view value) {
    std::string line = "  " + std::string(label) + ": " + std::string(value);
    if (value.empty() || std::ranges::find(lines_, line) != lines_.end()) return;
    lines_.push_back(std::move(line));
  }
  void move_to(Lines& text) const {
    for (const std::string& line : lines_) text.add(line);
  }

 private:
  std::vector<std::string> lines_;
};

/// Of validate; a rule that doctor has, too, has what more doctor knows.
Lines explained(const std::string& asked) {
  const auto rule = std::ranges::find_if(rules(), [&](const Rule& r) { return same_but_for_case(r.id, asked); });
  const std::vector<const Entry*> entries = catalog_named(asked);
  if (rule == rules().end() && entries.empty())
    fail("explain: no finding is called " + quoted(asked) +
         "; 'kvcal validate --list-rules' and 'kvcal doctor --list' list them");
  const bool has_rule = rule != rules().end();
  const Entry* first = entries.empty() ? nullptr : entries.front();
  Lines text(std::string(has_rule ? rule->id : first->id) + ", " +
             std::string(name_of(has_rule ? rule->severity : first->severity)) + ": " +
             std::string(has_rule ? rule->meaning : first->meaning));
  for (const std::string& paragraph : origin_of(has_rule ? rule->id : first->id)) text.add("  " + paragraph);
  Labelled lines;
  lines.add("found by", !has_rule ? "doctor" : first != nullptr ? "validate, doctor" : "validate");
  if (has_rule) lines.add("needs", rule->needs);
  if (has_rule) lines.add("fix", rule->fix);
  for (const Entry* e : entries) {
    lines.add("does not prove", e->not_proved);
    if (!has_rule) lines.add("fix", general_fix(*e));
    lines.add("known from",
              std::string(name_of(e->confidence)) + (e->source.empty() ? "" : ": ") + std::string(e->source));
  }
  lines.move_to(text);
  return text;
}

}  // namespace

void add_explain(CLI::App& app, Job& chosen) {
  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App* verb = app.add_subcommand("explain", "Say what a finding of validate or doctor means, and what to do");
  verb->add_option("ID", *ids, "Findings as they are printed: S08, F03, LG2")->required();
  verb->footer("Examples:\n  kvcal explain S08\n  kvcal explain F03 LG36");
  verb->callback([ids, &chosen] {
    chosen = [ids] {
      Lines text;
      for (const std::string& id : *ids) text += explained(id);
      write_result(text);
      return Exit::Done;
    };
  });
}

}  // namespace kvcal
