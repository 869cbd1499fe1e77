// kvcal prompts MODEL: what the model will be fed. Each prompt stands alone: one that cannot be fed is shown with its
// reason, between the others.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/number_text.h"
#include "calibrate/pictures.h"
#include "checkpoint/config_file.h"
#include "hub_cache.h"
#include "progress.h"
#include "prompt_flags.h"
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
  if (const std::string notice = repetition_notice(made); !notice.empty())
    std::cerr << "kvcal: warning: " << notice << '\n';
  job.set = std::move(made.set);
}

PromptsJob resolve(const PromptsFlags& flags) {
  const fs::path model = flags.model;
  std::error_code ignored;
  if (!fs::is_directory(model, ignored))
    fail("MODEL " + quoted(flags.model) + " is not a folder; expected a Hugging Face checkpoint folder");
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
    std::cerr << "kvcal: warning: " << odd << '\n';
  for (const std::string& note : job.set.notes) std::cerr << "kvcal: " << note << '\n';
  return job;
}

// What terminals would obey is shown instead of sent; line breaks and tabs stay.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte >= 0x20 || c == '\n' || c == '\t') && byte != 0x7F) {
      out += c;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
      out += escaped;
    }
  }
  return out;
}

std::string one_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void print_prompt(const PromptsJob& job, const PromptRecord& record, const TokenizedPrompt& prompt) {
  const auto n_tokens = static_cast<int64_t>(prompt.input_ids.size());
  if (job.json) {
    Json line = {{"id", prompt.id}, {"text", prompt.text}, {"input_ids", prompt.input_ids}, {"n_tokens", n_tokens}};
    if (prompt.truncated) line["n_before_truncation"] = prompt.n_before_truncation;
    std::cout << one_line(line) << '\n';
    return;
  }
  std::cout << "== " << quoted(prompt.id) << "  " << grouped(n_tokens) << (n_tokens == 1 ? " token" : " tokens");
  if (prompt.truncated) std::cout << ", truncated from " << grouped(prompt.n_before_truncation);
  if (prompt.weight > 1) std::cout << ", fed " << grouped(prompt.weight) << " times";
  std::cout << "  (" << record.source << ")\n";
  if (record.kind == PromptKind::Ids)
    std::cout << "given as token ids" << (job.ids ? "" : "; --ids shows them") << '\n';
  else
    std::cout << shown(prompt.text) << '\n';
  if (job.ids) {
    std::cout << "ids:";
    for (const int32_t id : prompt.input_ids) std::cout << ' ' << id;
    std::cout << '\n';
  }
  std::cout << '\n';
}

void print_failure(const PromptsJob& job, const Json& id, const std::string& reason) {
  if (job.json)
    std::cout << one_line({{"id", id}, {"error", reason}}) << '\n';
  else
    std::cout << "== " << (id.is_string() ? quoted(id.get<std::string>()) + "  " : "") << "cannot be fed: " << reason
              << "\n\n";
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

void print_sources(const PromptsJob& job, std::ostream& out) {
  const bool chats = any_of_kind(job.set, PromptKind::Chat);
  if (chats || job.chat_template) {
    out << "chat template:   ";
    if (job.chat_template) {
      out << job.chat_template->name() << (chats ? "" : ", not used");
      const std::vector<std::string> variants = job.chat_template->variants();
      if (variants.size() > 1) out << ", one of " << comma_list(variants);
      out << '\n';
    } else {
      out << "none\n";
    }
  }
  if (!job.tokenizer) return;
  out << "around raw text: " << tokens_around_text(*job.tokenizer) << '\n';
  std::vector<std::string> named;
  for (const auto& [name, token] : job.tokenizer->special_tokens()) {
    const std::optional<int32_t> id = job.tokenizer->id_of(token);
    named.push_back(name + " " + quoted(token) + (id ? " (" + std::to_string(*id) + ")" : " (not in the vocabulary)"));
  }
  if (!named.empty()) out << "special tokens:  " << comma_list(named) << '\n';
}

void print_totals(Totals totals, const TokenizeOptions& options, std::ostream& out) {
  std::vector<int64_t>& lengths = totals.lengths;
  std::sort(lengths.begin(), lengths.end());
  out << "prompts:         " << grouped(static_cast<int64_t>(lengths.size()));
  if (totals.n_repeats > 0)
    out << ", with repeats " << grouped(static_cast<int64_t>(lengths.size()) + totals.n_repeats);
  if (totals.n_truncated > 0)
    out << "; " << grouped(totals.n_truncated) << " truncated to " << grouped(options.max_length) << " tokens";
  if (totals.n_failed > 0) out << "; " << grouped(totals.n_failed) << " cannot be fed";
  if (totals.replaced > 0) out << "; " << totals.replaced << " malformed UTF-8 sequence(s) read as U+FFFD";
  out << '\n';
  if (lengths.empty()) return;
  out << "tokens:          " << grouped(totals.n_tokens()) << "; shortest " << grouped(lengths.front()) << ", median "
      << grouped(lengths[lengths.size() / 2]) << ", longest " << grouped(lengths.back()) << '\n';
}

Exit run(const PromptsJob& job) {
  Totals totals;
  totals.n_failed = static_cast<int64_t>(job.set.skipped.size());
  totals.replaced = job.set.replaced;
  for (const std::string& skipped : job.set.skipped) print_failure(job, nullptr, skipped);
  for (const PromptRecord& record : job.set.records) feed(job, record, totals);
  for (const std::string& note : notes_on(totals.noted)) std::cerr << "kvcal: " << note << '\n';
  // In JSON mode standard output belongs to the prompts.
  std::ostream& out = job.json ? std::cerr : std::cout;
  if (!job.json) print_sources(job, out);
  if (!job.json || totals.n_failed > 0) print_totals(totals, job.options, out);
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
  verb->callback([flags, &chosen] {
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      return run(resolve(*flags));
    };
  });
}

}  // namespace kvcal
