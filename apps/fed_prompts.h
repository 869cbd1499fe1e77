// The prompts of a command line as token ids: what `prompts` shows, `calibrate` and `generate` run.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "prefill/sequence_plan.h"
#include "prompts/chat_template.h"
#include "prompts/prompt_set.h"
#include "tokenizer/tokenizer.h"

namespace CLI {
class App;
}

namespace kvcal {

/// The options that every verb with prompts has.
struct PromptFlags {
  std::vector<std::string> files;  // empty: the prompt set that comes with the program
  bool skip_bad = false;
  std::string template_kwargs;  // JSON object
  std::string date;             // for templates that print today's date
  bool raw_on_purpose = false;  // no warning about raw text and a chat template
  int64_t max_length = 2048;
  int64_t max_prompts = 0, max_tokens = 0;  // 0 = all

  void add_to(CLI::App& verb);

  /// Files and tokenization only, without the options that select prompts.
  void add_files_to(CLI::App& verb);
};

struct FedPrompts {
  std::optional<Tokenizer> tokenizer;    // none: the folder has no usable one, and all prompts are token ids
  std::optional<ChatTemplate> chat;      // none: the model has no template
  std::vector<TokenizedPrompt> prompts;  // sorted by id; those beyond max_prompts and max_tokens are gone
  std::string sha256;                    // over the sorted canonical records
  std::vector<std::string> skipped;      // "what: reason"
  size_t n_truncated = 0, n_replaced = 0;
};

/// The prompts that are fed; `chat` tells whether the model has a chat template.
using PromptSource = std::function<PromptSet(bool chat)>;

/// Reads the files of the flags.
PromptSet read_prompt_files(const PromptFlags& flags);

/// A mismatch of prompts and chat template: only raw text although the model has a template, or chats although it has
/// none. Empty if they match.
std::string template_mismatch(const PromptSet& set, const ChatTemplate* chat);

/// The flags as the tokenizer wants them, checked.
TokenizeOptions tokenize_options(const PromptFlags& flags, int64_t vocab);

/// Renders and tokenizes what `source` gives. vocab is the number of rows of the model's embedding. Throws Error for a
/// set without any usable prompt; warnings go to standard error.
FedPrompts feed_prompts(const std::filesystem::path& model, int64_t vocab, const PromptFlags& flags,
                        const PromptSource& source);

/// Which tokenizer a model folder has: the hash of its tokenizer.json; "" without one.
std::string tokenizer_sha256(const std::filesystem::path& model);

/// Over the sorted canonical records of prompts.
std::string prompts_sha256(std::span<const TokenizedPrompt> prompts);

/// Whether any prompt has rows of an image encoder.
bool has_encoder_rows(const FedPrompts& fed);

/// For plan_sequences(), with the embeddings that prompts bring, checked against the model.
std::vector<PromptTokens> tokens_of(const FedPrompts& fed, const ModelSpec& spec);

}  // namespace kvcal
