#include "doctor/diagnose.h"

#include <algorithm>

#include "base/word_list.h"
#include "deployment/cache_choices.h"
#include "doctor/checkpoint_facts.h"
#include "doctor/facts.h"
#include "doctor/launches.h"
#include "doctor/log_reader.h"
#include "doctor/output_text.h"

namespace kvcal {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10, kMostReportBytes = size_t{256} << 10;

void add_sign(std::vector<Sign>& signs, Sign sign) {
  const auto same =
      std::find_if(signs.begin(), signs.end(), [&](const Sign& s) { return s.entry->id == sign.entry->id; });
  if (same == signs.end()) {
    signs.push_back(std::move(sign));
    return;
  }
  if (same->detail.empty()) same->detail = std::move(sign.detail);
  same->evidence.insert(same->evidence.end(), sign.evidence.begin(), sign.evidence.end());
}

/// What it says was read in versions of a server.
bool depends_on_server(const CombinationRule& rule) {
  return (rule.needs & (kKnownServer | kVllm | kSglang)) != 0 || !rule.backends.empty();
}

std::vector<Sign> all_signs(const Facts& facts, std::vector<Diagnosis::NotEvaluated>& not_evaluated) {
  std::vector<Sign> signs;
  const std::vector<Facts> each_version = with_each_version(facts);
  const bool is_newer = !facts.installed && is_newer_than_known(facts.server, facts.version);
  for (const auto& [id, sign] : facts.lines) add_sign(signs, sign);
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules) {
      Applies rule_applies = applies(rule, facts);
      if (rule_applies.all == Trait::Unknown)
        not_evaluated.push_back({std::string(rule.entry.id), std::move(rule_applies.open)});
      if (rule_applies.all != Trait::Yes || is_refuted(rule, facts)) continue;
      Found sign = found_by_rule(rule, facts);
      if (!sign.holds) continue;
      const std::string versions = versions_where(each_version, [&](size_t i) {
        const Facts& f = each_version[i];
        return applies(rule, f).all == Trait::Yes && !is_refuted(rule, f) && found_by_rule(rule, f).holds;
      });
      if (!versions.empty()) sign.detail += (sign.detail.empty() ? "in " : "; in ") + versions;
      if (is_newer && rule.entry.severity != Severity::Note && depends_on_server(rule)) {
        sign.detail +=
            (sign.detail.empty() ? "" : "; ") + std::string("known up to ") + str(newest_known(facts.server));
        sign.is_hint = true;
      }
      add_sign(signs, {&rule.entry, std::move(sign.detail), std::move(sign.evidence), sign.is_hint, !versions.empty()});
    }
  return signs;
}

std::string no_server(const Launches& launches) {
  if (launches.kind == "command")
    return "starts no server: expected vllm serve ..., python -m sglang.launch_server ..., llama-server ..., a "
           "container of one, or its options alone (--model X ...)";
  std::string images;
  for (const std::string& image : launches.images)
    if (images.size() < 200) images += (images.empty() ? ": " : ", ") + quoted(image);
  return "a " + std::string(launches.kind) + " in which no container starts a server that is known" + images;
}

std::string text_of(const ServeCommand& command) {
  return command.written.empty() ? command_without(command, {}) : command.written;
}

void take_launch(const std::string& name, ServeCommand command, Facts& facts) {
  if (facts.server == Engine::Unknown) facts.server = command.server;
  if (command.words.front() == "..." && facts.server != Engine::Unknown) give_program(command, facts.server);
  const Evidence from = {name, 0, excerpt(text_of(command), 0), 1, 0};
  if (!facts.version && command.version && command.server == facts.server) {
    facts.version = command.version;
    facts.version_from = from;
  }
  for (const auto& [flag, value] : command.flags) facts.flags.insert_or_assign(flag, Flag{value, from});
  for (const auto& [key, value] : command.environment) facts.environment.insert_or_assign(key, value);
  if (!command.model.empty()) facts.model_path = command.model;
  facts.command = command;
  facts.command_from = from;
  facts.commands.emplace_back(std::move(command), from);
}

// What the other inputs say of the server must be so of the installed one, which then says the rest.
void take_installed(Facts& facts) {
  const InstalledServer& installed = *facts.installed;
  const bool other = facts.server != Engine::Unknown && facts.server != installed.server;
  const bool other_version = facts.version && installed.version && *facts.version != *installed.version;
  if (other || other_version)
    fail("--installed " + quoted(installed.python) + " has " + str(installed.server, installed.version) + ", " +
         (facts.version ? facts.version_from.file + " says " : "the other inputs say ") +
         str(facts.server, facts.version) + "; leave out --installed, or say with --server what is wanted");
  facts.server = installed.server;
  if (facts.command && facts.command->words.front() == "...") give_program(*facts.command, facts.server);
  if (!installed.version) return;
  facts.version = installed.version;
  facts.version_from = {"--installed " + installed.python, 0, "", 1, 0};
}

// What one finding says alone is taken back where another, no lesser one says more of the same.
std::vector<Sign> without_superseded(const std::vector<Sign>& signs) {
  std::vector<Sign> left;
  std::ranges::copy_if(signs, std::back_inserter(left), [&](const Sign& s) {
    return std::ranges::none_of(signs, [&](const Sign& other) {
      return other.severity() >= s.severity() && has_word(other.entry->supersedes, s.entry->id);
    });
  });
  return left;
}

}  // namespace

void Doctor::add_server(const NamedEngine& server) {
  facts_.server = server.server;
  facts_.version = server.version;
  facts_.version_from = {"--server", 0, "", 1, 0};
}

void Doctor::add_installed(InstalledServer server) {
  inputs_.push_back({"--installed " + server.python, "installed server", 0, 0});
  facts_.installed = std::move(server);
}

void Doctor::add_gpu(const std::string& text) {
  facts_.gpu = parse_gpu(text);
  if (!facts_.gpu) {
    const std::string near = nearest_gpu(text);
    fail("--gpu " + quoted(text) + ": unknown GPU; " + (near.empty() ? "" : "did you mean '" + near + "'? ") +
         "expected one such as H100, 'RTX 5090', sm_90, MI300X or gfx942");
  }
  facts_.gpu_from = {"--gpu", 0, text, 1, 0};
}

void Doctor::add_log(const std::string& name, const Source& source) {
  LogReader reader(name, facts_);
  std::string buffer(kChunkBytes, '\0'), report;
  while (const size_t n = source(buffer.data(), buffer.size())) {
    reader.feed({buffer.data(), n});
    report.append(buffer, 0, std::min(n, kMostReportBytes - report.size()));
  }
  reader.finish();
  // Reports of trouble are short; a log has no such blocks.
  for (const ShownLaunch& shown : launches_in_blocks(report))
    take_logged(facts_, shown.command, {name, shown.line, excerpt(text_of(shown.command), 0), 1, 0});
  inputs_.push_back({name, "log", reader.n_lines(), reader.n_bytes()});
}

void Doctor::add_command(const std::string& name, std::string_view text) {
  Launches launches = while_doing(name, [&] { return read_launches(text); });
  std::string refusal;
  size_t n_taken = 0;
  for (ServeCommand& command : launches.commands) {
    if (launches.options_alone) {
      const Evidence from = {name, 0, excerpt(text_of(command), 0), 1, 0};
      take_logged(facts_, command, from);
      facts_.flags.emplace("", Flag{"", from});
      ++n_taken;
      continue;
    }
    if (refusal.empty()) refusal = command.refusal;
    if (!command.refusal.empty()) continue;
    take_launch(name, std::move(command), facts_);
    ++n_taken;
  }
  if (!facts_.gpu) {
    facts_.gpu = parse_gpu(launches.gpu);
    facts_.gpu_from = {name, 0, launches.gpu, 1, 0};
  }
  if (n_taken == 0) throw StartsNoServer(name + ": " + (refusal.empty() ? no_server(launches) : refusal));
  inputs_.push_back({name, std::string(launches.kind), 0, text.size()});
}

void Doctor::add_checkpoint(const std::filesystem::path& path) {
  take_checkpoint(path, facts_);
  inputs_.push_back({path.string(), "checkpoint", 0, 0});
}

void Doctor::add_adapter(const std::filesystem::path& path) {
  take_adapter(path, facts_);
  inputs_.push_back({path.string(), "adapter", 0, 0});
}

void Doctor::add_scale_file(const std::filesystem::path& path) {
  take_scale_file(path, facts_);
  inputs_.push_back({path.string(), "scale file", 0, 0});
}

void Doctor::add_output(const std::string& name, std::string_view text) {
  facts_.has_output = true;
  std::vector<ResponseText> responses = responses_in(text);
  facts_.has_answer |= !responses.empty() || is_text_of_model(text);
  if (responses.empty()) responses.push_back({std::string(text), {}});
  for (const ResponseText& response : responses) {
    if (response.only_reasoning) facts_.unanswered.push_back({name, response.finish_reason});
    if (!response.tied_logits.empty()) facts_.tied_logits.push_back({name, response.tied_logits});
    for (OutputTrouble& trouble : examine_output(response.text)) {
      trouble.file = name;
      trouble.at_token = token_at(response, trouble.at_byte);
      facts_.output.push_back(std::move(trouble));
    }
  }
  inputs_.push_back({name, "output", 0, text.size()});
}

Diagnosis Doctor::diagnose() {
  if (facts_.installed) take_installed(facts_);
  identify_weights(facts_);
  take_model_name(facts_.model_path, facts_.model);
  resolve(facts_);
  Diagnosis diagnosis;
  diagnosis.inputs = inputs_;
  for (Sign& sign : without_superseded(all_signs(facts_, diagnosis.not_evaluated)))
    (sign.severity() == Severity::Note ? diagnosis.notes : diagnosis.findings).push_back(std::move(sign));
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [](const Sign& a, const Sign& b) { return a.severity() > b.severity(); });
  // What something else contradicts comes last.
  std::stable_partition(diagnosis.notes.begin(), diagnosis.notes.end(), [](const Sign& s) { return !s.is_hint; });
  diagnosis.explanations = explain(diagnosis.findings);
  const bool failed = facts_.start_failed && !facts_.has_started;
  const bool stops = !diagnosis.findings.empty() && diagnosis.findings.front().severity() == Severity::Fatal;
  const bool matters = failed ? !stops : diagnosis.findings.empty();
  if (matters && !is_known_line(facts_.exception)) diagnosis.unknown_exception = facts_.exception;
  for (Explanation& e : diagnosis.explanations) e.is_beside_exception = !diagnosis.unknown_exception.empty();
  diagnosis.facts = facts_;
  return diagnosis;
}

}  // namespace kvcal
