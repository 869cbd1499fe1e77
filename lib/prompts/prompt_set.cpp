#include "prompts/prompt_set.h"

#include <algorithm>
#include <unordered_map>

#include "base/sha256.h"
#include "base/token_kind.h"
#include "prompts/chat_template.h"
#include "prompts/prompt_input.h"
#include "prompts/prompt_pictures.h"
#include "prompts/prompt_record.h"
#include "prompts/token_kinds.h"
#include "tokenizer/tokenizer.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kIdDigits = 16;

// Collects the records of all files; ids are given when all are there.
class Collector {
 public:
  explicit Collector(const PromptLoadOptions& options) : options_(options) {}

  void add_file(std::string_view bytes, const std::string& name, std::string extension) {
    folder_ = std::filesystem::path(name).parent_path();
    if (extension == ".txt") return add_text_file(bytes, name);
    if (extension == ".json") return add_array(bytes, name);
    size_t line = 0;
    for (size_t begin = 0; begin < bytes.size(); ++begin) {
      const size_t end = std::min(bytes.find('\n', begin), bytes.size());
      const std::string_view text = bytes.substr(begin, end - begin);
      begin = end;
      ++line;
      if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      add(name + ":" + std::to_string(line), [&] {
        check_size(text.size());
        return parse_prompt_record(parse_json(valid(text), {.keep_large_integers = true}));
      });
    }
  }

  PromptSet finish() {
    if (set_.records.empty())
      fail("no prompt in the set" +
           (set_.skipped.empty() ? std::string() : "; the first one skipped: " + set_.skipped.front()));
    number_records();
    return std::move(set_);
  }

 private:
  std::string valid(std::string_view bytes) {
    RepairedText t = repair_utf8(bytes);
    if (t.replaced > 0 && options_.strict_utf8)
      fail("malformed UTF-8 in " + std::to_string(t.replaced) + " places; is the file in another encoding?");
    set_.replaced += t.replaced;
    if (t.text.starts_with("\xEF\xBB\xBF")) t.text.erase(0, 3);  // a byte order mark
    return std::move(t.text);
  }

  void check_size(size_t n) const {
    if (n > options_.max_line_bytes)
      fail("record of " + std::to_string(n) + " bytes, at most " + std::to_string(options_.max_line_bytes) +
           " are accepted");
  }

  template <class Make>
  void add(const std::string& source, Make&& make) {
    if (set_.records.size() >= options_.max_records)
      fail(source + ": more than " + std::to_string(options_.max_records) + " prompts");
    try {
      PromptRecord r = make();
      locate_files(r, folder_);
      r.source = source;
      set_.records.push_back(std::move(r));
    } catch (const Error& e) {
      if (!options_.skip_bad) fail(source + ": " + e.what());
      set_.skipped.push_back(source + ": " + e.what());
    }
  }

  void add_text_file(std::string_view bytes, const std::string& name) {
    add(name + ":1", [&] {
      check_size(bytes.size());
      std::string text = valid(bytes);
      if (text.ends_with('\n')) text.pop_back();
      if (text.ends_with('\r')) text.pop_back();
      return text_record(std::move(text));
    });
  }

  void add_array(std::string_view bytes, const std::string& name) {
    JsonLimits limits;
    limits.max_bytes = options_.max_file_bytes;
    limits.keep_large_integers = true;
    const Json j = while_doing(name, [&] { return parse_json(valid(bytes), limits); });
    if (!j.is_array()) return add(name + ":1", [&] { return parse_prompt_record(j); });
    for (size_t i = 0; i < j.size(); ++i)
      add(name + ": record " + std::to_string(i + 1), [&] { return parse_prompt_record(j[i]); });
  }

  // Default ids come from the content alone, so that neither order nor file matters; equal records are told apart by a
  // number, which again is the same whichever comes first.
  void number_records() {
    std::unordered_map<std::string, const PromptRecord*> given;
    for (const PromptRecord& r : set_.records) {
      if (r.id.empty()) continue;
      const auto [it, fresh] = given.emplace(r.id, &r);
      if (!fresh && it->second->canonical != r.canonical)
        fail(r.source + ": id " + quoted(r.id) + " was used for another prompt at " + it->second->source);
    }
    std::unordered_map<std::string, int> uses;
    for (PromptRecord& r : set_.records) {
      std::string base = r.id.empty() ? sha256_hex(r.canonical).substr(0, kIdDigits) : r.id;
      std::string id;
      do {
        const int n = ++uses[base];
        id = n == 1 ? base : base + "#" + std::to_string(n);
      } while (r.id.empty() ? given.count(id) > 0 : (id != base && given.count(id) > 0));
      r.id = std::move(id);
    }
  }

  PromptLoadOptions options_;
  std::filesystem::path folder_;  // of the file being read
  PromptSet set_;
};

std::string extension_of(std::filesystem::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension().string();
}

bool ends_with_assistant(const Json& messages) {
  const Json* role = find_member(messages.back(), "role");
  return role && *role == "assistant";
}

class PromptTokenizer {
 public:
  PromptTokenizer(const Tokenizer* tokenizer, const ChatTemplate* chat_template, const TokenizeOptions& options)
      : tokenizer_(tokenizer), template_(chat_template), options_(options) {}

  TokenizedPrompt run(const PromptRecord& r, size_t& replaced) const {
    TokenizedPrompt out{r.id, r.canonical, "", {}, 0, false, r.weight, r.embeddings, r.embeddings_sha256};
    out.expect = r.expect;
    out.tags = r.tags;
    std::sort(out.tags.begin(), out.tags.end());
    out.tags.erase(std::unique(out.tags.begin(), out.tags.end()), out.tags.end());
    if (r.kind == PromptKind::Ids) {
      out.input_ids = r.input_ids;
    } else {
      if (!tokenizer_) fail("needs a tokenizer, but the model has none; give input_ids instead");
      const ChatInput chat = r.kind == PromptKind::Chat ? chat_of(r) : ChatInput{};
      out.text = r.kind == PromptKind::Chat ? template_->render(chat, tokenizer_->special_tokens())
                                            : with_pictures(r.text, picture_text(r));
      Tokenizer::Encoded encoded = tokenizer_->encode(out.text, r.kind == PromptKind::Text);
      out.input_ids = std::move(encoded.ids);
      replaced += encoded.replaced;
      if (r.kind == PromptKind::Chat)
        out.kinds = chat_token_kinds(chat, out.text, out.input_ids, *template_, *tokenizer_);
    }
    if (r.kind != PromptKind::Chat) out.kinds.assign(out.input_ids.size(), token_kind(TokenRole::Text));
    check(out.input_ids);
    if (!r.pictures.empty()) {
      if (!options_.pictures) fail("has pictures, which are not read for this model");
      out.pictures = expand_pictures(r.pictures, *options_.pictures, tokenizer_, out.input_ids, out.kinds);
    }
    out.n_before_truncation = static_cast<int64_t>(out.input_ids.size());
    if (options_.max_length > 0 && out.n_before_truncation > options_.max_length) {
      if (!r.embeddings.empty() || !r.pictures.empty())
        fail("has " + std::to_string(out.n_before_truncation) + " tokens, more than the maximum length " +
             std::to_string(options_.max_length) + ", and a prompt with images cannot be truncated");
      out.input_ids.resize(static_cast<size_t>(options_.max_length));
      out.kinds.resize(out.input_ids.size());
      out.truncated = true;
    }
    return out;
  }

 private:
  ChatInput chat_of(const PromptRecord& r) const {
    if (!template_) fail("is a chat, but the model has no chat template; give \"text\" instead of \"messages\"");
    ChatInput input;
    input.messages = r.messages;
    input.tools = r.tools;
    input.add_generation_prompt = !ends_with_assistant(r.messages);
    input.extra = options_.template_kwargs;
    input.unix_seconds = options_.unix_seconds;
    input.picture = picture_text(r);
    return input;
  }

  PictureText picture_text(const PromptRecord& r) const {
    return options_.pictures && !r.pictures.empty() ? options_.pictures->text : PictureText{};
  }

  void check(const std::vector<int32_t>& ids) const {
    if (ids.empty()) fail("has no tokens");
    int64_t limit = options_.vocab_size;
    if (limit <= 0 && tokenizer_) limit = static_cast<int64_t>(tokenizer_->vocab_size());
    if (limit <= 0) return;
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= limit)
        fail("token " + std::to_string(i) + " has id " + std::to_string(ids[i]) + ", but the model knows ids below " +
             std::to_string(limit) + "; are tokenizer and model from the same checkpoint?");
  }

  const Tokenizer* tokenizer_;
  const ChatTemplate* template_;
  const TokenizeOptions& options_;
};

}  // namespace

PromptSet load_prompts(const std::vector<std::filesystem::path>& paths, const PromptLoadOptions& options) {
  Collector collector(options);
  for (const std::filesystem::path& path : paths)
    collector.add_file(read_prompt_file(path, options.max_file_bytes), path == "-" ? "standard input" : path.string(),
                       extension_of(path));
  return collector.finish();
}

PromptSet parse_prompts(std::string_view text, const std::string& name, const PromptLoadOptions& options) {
  Collector collector(options);
  collector.add_file(text, name, extension_of(name));
  return collector.finish();
}

TokenizedSet tokenize_prompts(const PromptSet& set, const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                              const TokenizeOptions& options) {
  TokenizedSet out;
  const PromptTokenizer run(tokenizer, chat_template, options);
  for (const PromptRecord& r : set.records) {
    const std::string who = "prompt " + quoted(r.id) + " (" + r.source + ")";
    try {
      out.prompts.push_back(run.run(r, out.replaced));
      out.n_truncated += out.prompts.back().truncated ? 1 : 0;
    } catch (const Error& e) {
      if (!options.skip_bad) fail(who + ": " + e.what());
      out.skipped.push_back(who + ": " + e.what());
    }
  }
  if (out.prompts.empty())
    fail("no prompts left" + (out.skipped.empty() ? std::string() : "; the first one skipped: " + out.skipped.front()));
  return out;
}

}  // namespace kvcal
