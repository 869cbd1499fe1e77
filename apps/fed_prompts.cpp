#include "fed_prompts.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "base/json.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/token_kind.h"
#include "prefill/encoder_file.h"
#include "prompts/default_prompts.h"
#include "source_date.h"

namespace kvcal {
namespace {

constexpr const char* kGroup = "Prompts";

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

void warn(const FedPrompts& fed, int64_t max_length) {
  constexpr size_t kShown = 5;
  for (size_t i = 0; i < std::min(fed.skipped.size(), kShown); ++i)
    std::cerr << "kvcal: warning: skipped " << fed.skipped[i] << '\n';
  if (fed.skipped.size() > kShown) std::cerr << "kvcal: warning: skipped " << fed.skipped.size() << " prompts in all\n";
  if (fed.n_truncated)
    std::cerr << "kvcal: warning: " << fed.n_truncated << " prompt(s) truncated to " << max_length << " tokens\n";
  if (fed.n_replaced)
    std::cerr << "kvcal: warning: " << fed.n_replaced << " malformed UTF-8 sequence(s) read as U+FFFD\n";
}

}  // namespace

void PromptFlags::add_files_to(CLI::App& verb) {
  verb.add_option("-p,--prompts", files,
                  "Prompt files (.jsonl, .json or .txt, optionally .gz or .zst); - reads standard input (default: the "
                  "shipped set)")
      ->group(kGroup)
      ->type_name("FILE");
  verb.add_option("--max-length", max_length, "Truncate prompts to N tokens; 0: no limit")
      ->group(kGroup)
      ->type_name("N")
      ->capture_default_str();
  verb.add_option("--template-kwargs", template_kwargs, "Variables for the chat template, as a JSON object")
      ->group(kGroup)
      ->type_name("JSON");
  verb.add_option("--date", date, "Date for chat templates that print today's, YYYY-MM-DD")
      ->group(kGroup)
      ->type_name("DATE");
}

void PromptFlags::add_to(CLI::App& verb) {
  add_files_to(verb);
  verb.add_option("--max-prompts", max_prompts, "Use only the first N prompts, in order of their ids")
      ->group(kGroup)
      ->type_name("N");
  verb.add_option("--max-tokens", max_tokens, "Use prompts in order of their ids, up to N tokens")
      ->group(kGroup)
      ->type_name("N");
  verb.add_flag("--skip-bad", skip_bad, "Skip bad prompts with a warning instead of stopping")->group(kGroup);
}

PromptSet read_prompt_files(const PromptFlags& flags) {
  PromptLoadOptions options;
  options.skip_bad = flags.skip_bad;
  // Messages name the file by its place in the source tree, wherever the program lies.
  if (flags.files.empty()) return parse_prompts(default_prompts(), "datasets/default.jsonl", options);
  return load_prompts({flags.files.begin(), flags.files.end()}, options);
}

std::string template_mismatch(const PromptSet& set, const ChatTemplate* chat) {
  const auto count = [&](PromptKind kind) {
    return std::count_if(set.records.begin(), set.records.end(), [&](const auto& r) { return r.kind == kind; });
  };
  const auto n_chats = count(PromptKind::Chat), n_texts = count(PromptKind::Text);
  if (!chat && n_chats > 0)
    return std::to_string(n_chats) + " of " + std::to_string(set.records.size()) +
           " prompts are chats, but the model has no chat template; give their text as \"text\"";
  if (chat && n_texts > 0 && n_chats == 0)
    return "the prompts are raw text, so the chat template of the model is not used (" + chat->name() +
           "); in service a chat model sees other tokens; give \"messages\" unless raw text is intended";
  return "";
}

TokenizeOptions tokenize_options(const PromptFlags& flags, int64_t vocab) {
  if (flags.max_length < 0) fail("--max-length is " + std::to_string(flags.max_length) + ", expected 0 or more");
  TokenizeOptions options;
  options.max_length = flags.max_length;
  options.vocab_size = vocab;
  options.skip_bad = flags.skip_bad;
  if (!flags.template_kwargs.empty()) {
    options.template_kwargs = while_doing(
        "--template-kwargs", [&] { return parse_json(flags.template_kwargs, {.keep_large_integers = true}); });
    if (!options.template_kwargs.is_object())
      fail("--template-kwargs is not a JSON object, expected one such as {\"x\": true}");
  }
  options.unix_seconds = source_date_epoch();
  if (!flags.date.empty()) options.unix_seconds = while_doing("--date", [&] { return parse_date(flags.date); });
  return options;
}

FedPrompts feed_prompts(const std::filesystem::path& model, int64_t vocab, const PromptFlags& flags,
                        const PromptSource& source) {
  if (flags.max_prompts < 0 || flags.max_tokens < 0) fail("--max-prompts and --max-tokens cannot be negative");
  FedPrompts fed;
  std::string problem;
  fed.tokenizer = load_tokenizer(model, problem);
  if (fed.tokenizer) fed.chat = ChatTemplate::load(model);
  const PromptSet set = source(fed.chat.has_value());
  if (!fed.tokenizer && needs_tokenizer(set)) fail(problem);
  if (const std::string odd = template_mismatch(set, fed.chat ? &*fed.chat : nullptr);
      !odd.empty() && !flags.raw_on_purpose)
    std::cerr << "kvcal: warning: " << odd << '\n';
  TokenizedSet tokenized = tokenize_prompts(set, fed.tokenizer ? &*fed.tokenizer : nullptr,
                                            fed.chat ? &*fed.chat : nullptr, tokenize_options(flags, vocab));
  fed.prompts = std::move(tokenized.prompts);
  std::sort(fed.prompts.begin(), fed.prompts.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  cut(fed.prompts, flags);
  if (fed.prompts.empty()) fail("no usable prompt");
  fed.sha256 = prompts_sha256(fed.prompts);
  fed.skipped = set.skipped;
  fed.skipped.insert(fed.skipped.end(), tokenized.skipped.begin(), tokenized.skipped.end());
  fed.n_truncated = static_cast<size_t>(
      std::count_if(fed.prompts.begin(), fed.prompts.end(), [](const TokenizedPrompt& p) { return p.truncated; }));
  fed.n_replaced = set.replaced + tokenized.replaced;
  warn(fed, flags.max_length);
  return fed;
}

std::string prompts_sha256(std::span<const TokenizedPrompt> prompts) {
  Sha256 sha;
  for (const TokenizedPrompt& p : prompts)
    sha.update(p.id + "\n" + p.canonical + "\n" + std::to_string(p.weight) + "\n");
  return sha.hex();
}

std::string tokenizer_sha256(const std::filesystem::path& model) {
  constexpr size_t kMostBytes = size_t{256} << 20;
  const std::filesystem::path file = model / "tokenizer.json";
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? sha256_hex(read_file(file, kMostBytes)) : "";
}

bool has_encoder_rows(const FedPrompts& fed) {
  return std::any_of(fed.prompts.begin(), fed.prompts.end(), [](const auto& p) { return !p.embeddings.empty(); });
}

std::vector<PromptTokens> tokens_of(const FedPrompts& fed, const ModelSpec& spec) {
  std::vector<PromptTokens> tokens;
  for (const TokenizedPrompt& p : fed.prompts) {
    tokens.push_back({p.id, p.input_ids, p.weight});
    tokens.back().kinds = p.kinds;
    tokens.back().tags = p.tags;
    if (p.embeddings.empty()) continue;
    tokens.back().encoder_sha256 = p.embeddings_sha256;
    tokens.back().encoder =
        while_doing("prompt " + quoted(p.id), [&] { return read_encoder_file(p.embeddings, p.input_ids, spec); });
    for (size_t i = 0; i < p.kinds.size(); ++i)
      if (tokens.back().encoder->row_of[i] >= 0) tokens.back().kinds[i] = token_kind(TokenRole::Image);
  }
  return tokens;
}

}  // namespace kvcal
