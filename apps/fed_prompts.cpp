#include "fed_prompts.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/json.h"
#include "base/sha256.h"
#include "shipped_files.h"

namespace kvcal {
namespace {

bool needs_tokenizer(const PromptSet& set) {
  return std::any_of(set.records.begin(), set.records.end(),
                     [](const PromptRecord& r) { return r.kind != PromptKind::Ids; });
}

// Without a tokenizer the folder may still be fed token ids.
std::optional<Tokenizer> load_tokenizer(const std::filesystem::path& model, std::string& problem) {
  try {
    return Tokenizer::load(model);
  } catch (const Error& e) {
    problem = e.what();
    return std::nullopt;
  }
}

TokenizeOptions tokenize_options(const PromptFlags& flags, int64_t vocab) {
  TokenizeOptions options;
  options.max_length = flags.max_length;
  options.vocab_size = vocab;
  options.skip_bad = flags.skip_bad;
  if (!flags.template_kwargs.empty()) {
    options.template_kwargs = while_doing("--template-kwargs", [&] { return parse_json(flags.template_kwargs); });
    if (!options.template_kwargs.is_object()) fail("--template-kwargs is not a JSON object");
  }
  if (!flags.date.empty()) options.unix_seconds = parse_date(flags.date);
  return options;
}

// The first prompts by id, so that the order of files does not matter.
void cut(std::vector<TokenizedPrompt>& prompts, const PromptFlags& flags) {
  if (flags.max_prompts > 0 && prompts.size() > static_cast<size_t>(flags.max_prompts))
    prompts.resize(static_cast<size_t>(flags.max_prompts));
  if (flags.max_tokens <= 0) return;
  int64_t tokens = 0;
  size_t n = 0;
  for (; n < prompts.size(); ++n) {
    tokens += prompts[n].weight * static_cast<int64_t>(prompts[n].input_ids.size());
    if (tokens > flags.max_tokens && n > 0) break;
  }
  prompts.resize(n);
}

std::string digest(const std::vector<TokenizedPrompt>& prompts) {
  Sha256 sha;
  for (const TokenizedPrompt& p : prompts)
    sha.update(p.id + "\n" + p.canonical + "\n" + std::to_string(p.weight) + "\n");
  return sha.hex();
}

void warn(const FedPrompts& fed) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(fed.skipped.size(), kShown); ++i)
    std::cerr << "kvcal: warning: skipped " << fed.skipped[i] << '\n';
  if (fed.skipped.size() > kShown) std::cerr << "kvcal: warning: skipped " << fed.skipped.size() << " prompts in all\n";
  if (fed.n_truncated) std::cerr << "kvcal: warning: " << fed.n_truncated << " prompt(s) truncated to --max-length\n";
  if (fed.n_replaced)
    std::cerr << "kvcal: warning: " << fed.n_replaced << " malformed UTF-8 sequence(s) read as U+FFFD\n";
}

}  // namespace

void PromptFlags::add_to(CLI::App& verb) {
  const std::string group = "Prompts";
  verb.add_option(
          "-p,--prompts", files,
          "Prompt files (.jsonl, .json, .txt; '-': standard input; default: the set that comes with the program)")
      ->group(group)
      ->type_name("FILE");
  verb.add_option("--max-length", max_length, "Longest sequence in tokens; longer prompts are truncated and counted")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--max-prompts", max_prompts, "Take the first N prompts by id")->group(group);
  verb.add_option("--max-tokens", max_tokens, "Take prompts by id until N tokens")->group(group);
  verb.add_flag("--skip-bad", skip_bad, "Leave bad prompts out and count them, instead of stopping")->group(group);
  verb.add_option("--template-kwargs", template_kwargs, "Variables for the chat template, a JSON object")->group(group);
  verb.add_option("--date", date, "Today's date for templates that print it, such as 2026-01-31")->group(group);
}

PromptSet read_prompt_files(const PromptFlags& flags) {
  std::vector<std::filesystem::path> paths(flags.files.begin(), flags.files.end());
  if (paths.empty()) paths.push_back(shipped_file("datasets/default.jsonl"));
  PromptLoadOptions options;
  options.skip_bad = flags.skip_bad;
  return load_prompts(paths, options);
}

FedPrompts feed_prompts(const std::filesystem::path& model, int64_t vocab, const PromptFlags& flags,
                        const PromptSource& source) {
  if (flags.max_length < 1) fail("--max-length is " + std::to_string(flags.max_length) + ", expected 1 or more");
  if (flags.max_prompts < 0 || flags.max_tokens < 0) fail("--max-prompts and --max-tokens cannot be negative");
  FedPrompts fed;
  std::string problem;
  fed.tokenizer = load_tokenizer(model, problem);
  if (fed.tokenizer) fed.chat = ChatTemplate::load(model);
  const PromptSet set = source(fed.chat.has_value());
  if (!fed.tokenizer && needs_tokenizer(set)) fail(problem);
  TokenizedSet tokenized = tokenize_prompts(set, fed.tokenizer ? &*fed.tokenizer : nullptr,
                                            fed.chat ? &*fed.chat : nullptr, tokenize_options(flags, vocab));
  fed.prompts = std::move(tokenized.prompts);
  std::sort(fed.prompts.begin(), fed.prompts.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  cut(fed.prompts, flags);
  if (fed.prompts.empty()) fail("there is no usable prompt");
  fed.sha256 = digest(fed.prompts);
  fed.skipped = set.skipped;
  fed.skipped.insert(fed.skipped.end(), tokenized.skipped.begin(), tokenized.skipped.end());
  fed.n_truncated = tokenized.n_truncated;
  fed.n_replaced = set.replaced + tokenized.replaced;
  warn(fed);
  return fed;
}

std::vector<PromptTokens> tokens_of(const FedPrompts& fed) {
  std::vector<PromptTokens> tokens;
  for (const TokenizedPrompt& p : fed.prompts) tokens.push_back({p.id, p.input_ids, p.weight});
  return tokens;
}

}  // namespace kvcal
