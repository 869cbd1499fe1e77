// kvcal prompts MODEL: what the model will be fed. Each prompt stands alone: one that cannot be fed is shown with its
// reason, between the others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/counted.h"
#include "base/error.h"
#include "base/file_kind.h"
#include "base/json.h"
#include "base/number_text.h"
#include "calibrate/pictures.h"
#include "checkpoint/config_file.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "progress.h"
#include "prompt_flags.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

struct PromptsFlags {
  std::string model;
  PromptFlags prompts;
  bool ids = false, json = false;
};

// Everything opened and checked. The tokenizer and the template are there when a prompt needs them.
struct PromptsJob {
  PromptSet set;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  TokenizeOptions options;
  bool ids = false, json = false;
};

struct Totals {
  int64_t n_failed = 0, n_truncated = 0, n_repeats = 0;
  size_t replaced = 0;
  TokenizedSet noted;            // what is to be said at the end; without prompts
  std::vector<int64_t> lengths;  // of the prompts that can be fed

  int64_t n_tokens() const {
    int64_t n = 0;
    for (const int64_t length : lengths) n += length;
    return n;
  }
};

// Rows of the embedding as config.json gives them; 0 when it does not.
int64_t vocab_rows(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::exists(folder / "config.json", ignored)) return 0;
  const Json config = read_config(folder).config;
  const Json* text = find_member(config, "text_config");
  if (text != nullptr && text->is_object())
    if (const int64_t n = get_int_or(*text, "vocab_size", 0, "text_config."); n > 0) return n;
  return get_int_or(config, "vocab_size", 0);
}

// A model that calibrate cannot run has no such limit that is known.
void keep_within_model(PromptOptions& options, const fs::path& model) {
  std::error_code ignored;
  if (options.needles || !fs::exists(model / "config.json", ignored)) return;
  try {
    options.keep_within(parse_model(read_config(model).config)->spec().max_positions);
  } catch (const Error&) {
  }
}

bool any_of_kind(const PromptSet& set, PromptKind kind) {
  return std::any_of(set.records.begin(), set.records.end(), [&](const PromptRecord& r) { return r.kind == kind; });
}

void hide_needles(PromptsJob& job, const PromptsFlags& flags) {
  if (!job.tokenizer) job.tokenizer = Tokenizer::load(flags.model);
  NeedlePrompts made = make_needle_prompts(job.set, flags.prompts.needles, *job.tokenizer,
                                           job.chat_template ? &*job.chat_template : nullptr, job.options);
  if (const std::string notice = repetition_notice(made); !notice.empty()) say("kvcal: warning: ", notice);
  job.set = std::move(made.set);
}

PromptsJob resolve(const PromptsFlags& flags) {
  const fs::path model = flags.model;
  std::error_code ignored;
  const bool is_folder = fs::is_directory(model, ignored);
  if (!is_folder || kind_of_file(model) == FileKind::RunState)
    expect_kind(FileKind::ModelFolder, "a model folder", model);
  if (!is_folder) fail("MODEL " + quoted(flags.model) + " is not a folder; expected a Hugging Face checkpoint folder");
  PromptsJob job;
  job.ids = flags.ids;
  job.json = flags.json;
  const int64_t vocab = vocab_rows(model);
  PromptOptions options = flags.prompts.resolve();
  keep_within_model(options, model);
  job.options = tokenize_options(options, vocab);
  job.options.skip_bad = false;  // so that the reason arrives; feed() goes on with the next prompt
  job.set = read_prompt_files(flags.prompts, !flags.prompts.files.empty() || ChatTemplate::load(model).has_value());
  const bool chats = any_of_kind(job.set, PromptKind::Chat);
  if (chats || any_of_kind(job.set, PromptKind::Text)) job.tokenizer = Tokenizer::load(model);
  if (job.tokenizer) job.chat_template = ChatTemplate::load(model);
  if (!flags.prompts.needles.lengths.empty()) hide_needles(job, flags);
  if (std::ranges::any_of(job.set.records, [](const PromptRecord& r) { return !r.pictures.empty(); })) {
    const ConfigFile file = read_config(model);
    const Json config = with_image_token(file.config, file.folder);
    job.options.pictures = picture_tokens(job.set, model, config, parse_model(config)->spec());
    if (!job.tokenizer && !job.options.pictures->text.tokens.empty()) job.tokenizer = Tokenizer::load(model);
  }
  if (const std::string odd = template_mismatch(job.set, job.chat_template ? &*job.chat_template : nullptr);
      !odd.empty())
    say("kvcal: warning: ", odd);
  for (const std::string& note : job.set.notes) say("kvcal: ", note);
  return job;
}

void print_prompt(const PromptsJob& job, const PromptRecord& record, const TokenizedPrompt& prompt) {
  const auto n_tokens = static_cast<int64_t>(prompt.input_ids.size());
  if (job.json) {
    Json line = {{"id", prompt.id}, {"text", prompt.text}, {"input_ids", prompt.input_ids}, {"n_tokens", n_tokens}};
    if (prompt.truncated) line["n_before_truncation"] = prompt.n_before_truncation;
    write_json(line, -1);
    return;
  }
  write_line("== ", quoted(prompt.id), "  ", counted(n_tokens, "token"),
             prompt.truncated ? line_of(", truncated from ", grouped(prompt.n_before_truncation)) : "",
             prompt.weight > 1 ? line_of(", fed ", grouped(prompt.weight), " times") : "", "  (", record.source, ")");
  if (record.kind == PromptKind::Ids)
    write_line("given as token ids", (job.ids ? "" : "; --ids shows them"));
  else
    write_lines(Lines::of_text(prompt.text + "\n"));
  if (job.ids) {
    std::string ids = "ids:";
    for (const int32_t id : prompt.input_ids) ids += " " + std::to_string(id);
    write_lines(Lines(ids));
  }
  write_line();
}

void print_failure(const PromptsJob& job, const Json& id, const std::string& reason) {
  if (job.json)
    write_json({{"id", id}, {"error", reason}}, -1);
  else {
    write_line("== ", (id.is_string() ? quoted(id.get<std::string>()) + "  " : ""), "cannot be fed: ", reason);
    write_line();
  }
}

// tokenize_prompts() stops at the first prompt that fails; here each one is a set of its own.
void feed(const PromptsJob& job, const PromptRecord& record, Totals& totals) {
  const Tokenizer* tokenizer = job.tokenizer ? &*job.tokenizer : nullptr;
  const ChatTemplate* chat_template = job.chat_template ? &*job.chat_template : nullptr;
  try {
    PromptSet alone;
    alone.records.push_back(record);
    const TokenizedSet fed = tokenize_prompts(alone, tokenizer, chat_template, job.options);
    const TokenizedPrompt& prompt = fed.prompts.front();
    totals.lengths.push_back(static_cast<int64_t>(prompt.input_ids.size()));
    totals.n_truncated += prompt.truncated ? 1 : 0;
    totals.n_repeats += prompt.weight - 1;
    totals.replaced += fed.replaced;
    totals.noted.n_not_told_apart += fed.n_not_told_apart;
    totals.noted.n_written_as_python += fed.n_written_as_python;
    print_prompt(job, record, prompt);
  } catch (const Error& error) {
    ++totals.n_failed;
    std::string reason = error.what();
    const std::string who = "prompt " + quoted(record.id) + " (" + record.source + "): ";
    if (reason.starts_with(who)) reason.erase(0, who.size());
    print_failure(job, record.id, job.json ? reason : reason + "  (" + record.source + ")");
  }
}

// The tokens that raw text gets around it.
std::string tokens_around_text(const Tokenizer& tokenizer) {
  std::string list;
  for (const int32_t id : tokenizer.encode("", true).ids)
    list += (list.empty() ? "" : " ") + quoted(tokenizer.token_of(id).value_or("?")) + " (" + std::to_string(id) + ")";
  return list.empty() ? "none" : list;
}

std::string comma_list(const std::vector<std::string>& items) {
  std::string list;
  for (const std::string& item : items) list += (list.empty() ? "" : ", ") + item;
  return list;
}

Lines sources_text(const PromptsJob& job) {
  Lines out;
  const bool chats = any_of_kind(job.set, PromptKind::Chat);
  if (chats || job.chat_template) {
    std::string which = "none";
    if (job.chat_template) {
      which = job.chat_template->name() + (chats ? "" : ", not used");
      const std::vector<std::string> variants = job.chat_template->variants();
      if (variants.size() > 1) which += ", one of " + comma_list(variants);
    }
    out.add("chat template:   " + which);
  }
  if (!job.tokenizer) return out;
  out.add("around raw text: " + tokens_around_text(*job.tokenizer));
  std::vector<std::string> named;
  for (const auto& [name, token] : job.tokenizer->special_tokens()) {
    const std::optional<int32_t> id = job.tokenizer->id_of(token);
    named.push_back(name + " " + quoted(token) + (id ? " (" + std::to_string(*id) + ")" : " (not in the vocabulary)"));
  }
  if (!named.empty()) out.add("special tokens:  " + comma_list(named));
  return out;
}

Lines totals_text(Totals totals, const TokenizeOptions& options) {
  std::vector<int64_t>& lengths = totals.lengths;
  std::sort(lengths.begin(), lengths.end());
  std::ostringstream prompts;
  prompts << "prompts:         " << grouped(static_cast<int64_t>(lengths.size()));
  if (totals.n_repeats > 0)
    prompts << ", with repeats " << grouped(static_cast<int64_t>(lengths.size()) + totals.n_repeats);
  if (totals.n_truncated > 0)
    prompts << "; " << grouped(totals.n_truncated) << " truncated to " << grouped(options.max_length) << " tokens";
  if (totals.n_failed > 0) prompts << "; " << grouped(totals.n_failed) << " cannot be fed";
  if (totals.replaced > 0) prompts << "; " << totals.replaced << " malformed UTF-8 sequence(s) read as U+FFFD";
  Lines out(prompts.str());
  if (lengths.empty()) return out;
  out.add(line_of("tokens:          ", grouped(totals.n_tokens()), "; shortest ", grouped(lengths.front()), ", median ",
                  grouped(lengths[lengths.size() / 2]), ", longest ", grouped(lengths.back())));
  return out;
}

Exit run(const PromptsJob& job) {
  Totals totals;
  totals.n_failed = static_cast<int64_t>(job.set.skipped.size());
  totals.replaced = job.set.replaced;
  for (const std::string& skipped : job.set.skipped) print_failure(job, nullptr, skipped);
  for (const PromptRecord& record : job.set.records) feed(job, record, totals);
  for (const std::string& note : notes_on(totals.noted)) say("kvcal: ", note);
  // In JSON mode standard output belongs to the prompts.
  if (!job.json) write_lines(sources_text(job) + totals_text(totals, job.options));
  if (job.json && totals.n_failed > 0) say_lines(totals_text(totals, job.options));
  return totals.n_failed == 0 ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_prompts(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<PromptsFlags>();
  flags->prompts.skip_bad = true;  // shown with their reason
  CLI::App* verb =
      app.add_subcommand("prompts", "Show prompts as the model sees them: rendered text, token ids, lengths");
  verb->add_option("MODEL", flags->model, "Checkpoint folder with the tokenizer and the chat template")->required();
  flags->prompts.add_files_to(*verb);
  flags->prompts.add_needles_to(*verb);
  verb->add_flag("--ids", flags->ids, "Also show token ids");
  verb->add_flag("--json", flags->json, "One JSON object per prompt: id, text, input_ids, n_tokens; or id, error");
  verb->footer(
      "Examples:\n"
      "  kvcal prompts ./Qwen3-0.6B --prompts chats.jsonl\n"
      "  kvcal prompts ./Qwen3-0.6B --prompts a.jsonl b.jsonl.zst notes.txt --ids\n"
      "  kvcal prompts ./Qwen3-0.6B --json | jq .n_tokens\n"
      "  kvcal prompts ./Qwen3-0.6B --template-kwargs '{\"enable_thinking\": false}'\n"
      "\n"
      "Exit code 1 if any prompt cannot be tokenized; the others are still shown.");
  verb->callback([flags, verb, &chosen] {
    if (flags->json) refuse_idle(*verb, "with --json, which has them", {"--ids"});
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      return run(resolve(*flags));
    };
  });
}

}  // namespace kvcal
