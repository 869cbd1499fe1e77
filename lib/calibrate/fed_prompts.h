// Prompts as token ids: what `calibrate` and `generate` run.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/notices.h"
#include "calibrate/opened_model.h"
#include "model/model_spec.h"
#include "prefill/sequence_plan.h"
#include "prompts/chat_template.h"
#include "prompts/needles.h"
#include "prompts/prompt_set.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {

/// How prompts become token ids, and which of them are fed.
struct PromptOptions {
  int64_t max_length = 2048;                  // tokens; longer prompts are truncated. 0 = no limit
  int64_t max_prompts = 0, max_tokens = 0;    // the first by id, so many at most; 0 = all
  bool skip_bad = false;                      // leave prompts out that cannot be fed, with a warning
  bool raw_on_purpose = false;                // no warning about raw text and a chat template
  Json template_kwargs = Json::object();      // variables for the chat template
  std::optional<int64_t> unix_seconds = {};   // for templates that print the date
  std::optional<NeedleOptions> needles = {};  // the prompts are only the text that needles are hidden in

  /// Lowers max_length, or sets it, to what a model allows: a longer prompt would rotate keys as no server does.
  void keep_within(int64_t max_positions);
};

struct FedPrompts {
  std::optional<Tokenizer> tokenizer;    // none: the folder has no usable one, and all prompts are token ids
  std::optional<ChatTemplate> chat;      // none: the model has no template
  std::vector<TokenizedPrompt> prompts;  // sorted by id; those beyond max_prompts and max_tokens are gone
  std::string sha256;                    // over the sorted canonical records
  std::vector<std::string> skipped;      // "what: reason"
  std::vector<std::string> notes;        // what was decided about them
  size_t n_truncated = 0, n_replaced = 0;
};

/// Gives the prompts to feed; `chat` tells whether the model has a chat template.
using PromptSource = std::function<PromptSet(bool chat)>;

/// A mismatch of prompts and chat template: only raw text although the model has a template, or chats although it has
/// none. Empty if they match.
std::string template_mismatch(const PromptSet& set, const ChatTemplate* chat);

/// For tokenize_prompts(); vocab: rows of the model's embedding.
TokenizeOptions tokenize_options(const PromptOptions& options, int64_t vocab);

/// Renders and tokenizes what `source` gives. Throws Error for a set without any usable prompt.
FedPrompts feed_prompts(const OpenedModel& model, const PromptOptions& options, const PromptSource& source,
                        NoticeListener& listener);

/// Which tokenizer a model folder has: the hash of its tokenizer.json; "" without one.
std::string tokenizer_sha256(const std::filesystem::path& model);

/// Over the sorted canonical records of prompts.
std::string prompts_sha256(std::span<const TokenizedPrompt> prompts);

/// Whether any prompt has rows of an image encoder.
bool has_encoder_rows(const FedPrompts& fed);

/// For plan_sequences(), with the embeddings that prompts bring, checked against the model, and room for those of their
/// pictures, which see_pictures() fills.
std::vector<PromptTokens> tokens_of(const FedPrompts& fed, const OpenedModel& model);

}  // namespace kvcal
