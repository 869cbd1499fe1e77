#include "calibrate/fed_prompts.h"

#include <algorithm>

#include "base/counted.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/token_kind.h"
#include "calibrate/pictures.h"
#include "prefill/encoder_file.h"

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

PromptSet needles_in(const PromptSet& texts, const FedPrompts& fed, const NeedleOptions& needles,
                     const TokenizeOptions& options, NoticeListener& listener) {
  NeedlePrompts made = make_needle_prompts(texts, needles, *fed.tokenizer, fed.chat ? &*fed.chat : nullptr, options);
  if (const std::string notice = repetition_notice(made); !notice.empty()) listener.hear(Notice::Warning, notice);
  return std::move(made.set);
}

void warn(const FedPrompts& fed, int64_t max_length, NoticeListener& listener) {
  constexpr size_t kShown = 5;
  const auto say = [&](const std::string& text) { listener.hear(Notice::Warning, text); };
  for (const std::string& note : fed.notes) listener.hear(Notice::Note, note);
  for (size_t i = 0; i < std::min(fed.skipped.size(), kShown); ++i) say("skipped " + fed.skipped[i]);
  if (fed.skipped.size() > kShown) say("skipped " + std::to_string(fed.skipped.size()) + " prompts in all");
  if (fed.n_truncated)
    say(counted(static_cast<int64_t>(fed.n_truncated), "prompt") + " truncated to " + std::to_string(max_length) +
        " tokens");
  if (fed.n_replaced)
    say(counted(static_cast<int64_t>(fed.n_replaced), "malformed UTF-8 sequence") + " read as U+FFFD");
}

}  // namespace

void PromptOptions::keep_within(int64_t max_positions) {
  if (max_length == 0 || max_length > max_positions) max_length = max_positions;
}

std::string template_mismatch(const PromptSet& set, const ChatTemplate* chat) {
  const auto count = [&](PromptKind kind) {
    return std::count_if(set.records.begin(), set.records.end(), [&](const auto& r) { return r.kind == kind; });
  };
  const auto n_chats = count(PromptKind::Chat), n_texts = count(PromptKind::Text);
  if (!chat && n_chats > 0)
    return std::to_string(n_chats) + " of " + std::to_string(set.records.size()) +
           " prompts are chats, but the model has no chat template";
  if (chat && n_texts > 0 && n_chats == 0)
    return "the prompts are raw text, so the chat template of the model is not used (" + chat->name() +
           "); in service a chat model sees other tokens; give \"messages\" unless raw text is intended";
  return "";
}

TokenizeOptions tokenize_options(const PromptOptions& options, int64_t vocab) {
  TokenizeOptions out;
  out.max_length = options.max_length;
  out.vocab_size = vocab;
  out.skip_bad = options.skip_bad;
  out.max_prompts = options.max_prompts;
  out.max_tokens = options.max_tokens;
  out.template_kwargs = options.template_kwargs;
  out.unix_seconds = options.unix_seconds;
  return out;
}

FedPrompts feed_prompts(const OpenedModel& model, const PromptOptions& options, const PromptSource& source,
                        NoticeListener& listener) {
  const std::filesystem::path& folder = model.checkpoint.folder();
  FedPrompts fed;
  std::string problem;
  fed.tokenizer = load_tokenizer(folder, problem);
  if (fed.tokenizer) fed.chat = ChatTemplate::load(folder);
  PromptSet set = source(fed.chat.has_value());
  if (!fed.tokenizer && options.needles) fail("needles need the model's tokenizer: " + problem);
  if (!fed.tokenizer && needs_tokenizer(set)) fail(problem);
  TokenizeOptions tokenizing = tokenize_options(options, model.spec().vocab);
  if (options.needles) set = needles_in(set, fed, *options.needles, tokenizing, listener);
  if (const std::string odd = template_mismatch(set, fed.chat ? &*fed.chat : nullptr);
      !odd.empty() && !options.raw_on_purpose)
    listener.hear(Notice::Warning, odd);
  // The first prompts by id, so that the order of files does not matter.
  std::ranges::sort(set.records, {}, &PromptRecord::id);
  tokenizing.pictures = picture_tokens(set, folder, model.checkpoint.config(), model.spec());
  TokenizedSet tokenized =
      tokenize_prompts(set, fed.tokenizer ? &*fed.tokenizer : nullptr, fed.chat ? &*fed.chat : nullptr, tokenizing);
  set.records = {};  // of many prompts more than their tokens
  fed.prompts = std::move(tokenized.prompts);
  fed.sha256 = prompts_sha256(fed.prompts);
  fed.skipped = set.skipped;
  fed.skipped.insert(fed.skipped.end(), tokenized.skipped.begin(), tokenized.skipped.end());
  fed.n_truncated = static_cast<size_t>(
      std::count_if(fed.prompts.begin(), fed.prompts.end(), [](const TokenizedPrompt& p) { return p.truncated; }));
  fed.n_replaced = set.replaced + tokenized.replaced;
  fed.notes = set.notes;
  std::ranges::move(notes_on(tokenized), std::back_inserter(fed.notes));
  warn(fed, options.max_length, listener);
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
  return std::any_of(fed.prompts.begin(), fed.prompts.end(),
                     [](const auto& p) { return !p.embeddings.empty() || !p.pictures.empty(); });
}

std::vector<PromptTokens> tokens_of(const FedPrompts& fed, const OpenedModel& model) {
  const ModelSpec& spec = model.spec();
  std::vector<PromptTokens> tokens;
  std::optional<PictureRoom> room;
  for (const TokenizedPrompt& p : fed.prompts) {
    tokens.push_back({p.id, p.input_ids, p.weight});
    tokens.back().kinds = p.kinds;
    tokens.back().tags = p.tags;
    if (!p.embeddings.empty()) {
      tokens.back().encoder_sha256 = p.embeddings_sha256;
      tokens.back().encoder =
          while_doing("prompt " + quoted(p.id), [&] { return read_encoder_file(p.embeddings, p.input_ids, spec); });
    } else if (!p.pictures.empty()) {
      if (!room) room.emplace(model);
      room->add_to(tokens.back(), p);
    }
    if (!tokens.back().encoder) continue;
    for (size_t i = 0; i < p.kinds.size(); ++i)
      if (tokens.back().encoder->row_of[i] >= 0) tokens.back().kinds[i] = token_kind(TokenRole::Image);
  }
  return tokens;
}

}  // namespace kvcal
