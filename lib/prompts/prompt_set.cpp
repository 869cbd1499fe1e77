#include "prompts/prompt_set.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/file_kind.h"
#include "base/sha256.h"
#include "base/token_kind.h"
#include "prompts/chat_template.h"
#include "prompts/foreign_formats.h"
#include "prompts/prompt_input.h"
#include "prompts/prompt_pictures.h"
#include "prompts/prompt_record.h"
#include "prompts/record_splitter.h"
#include "prompts/served_messages.h"
#include "prompts/token_kinds.h"
#include "tokenizer/tokenizer.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kIdDigits = 16;

std::string extension_of(std::filesystem::path path) {
  if (path.extension() == ".gz" || path.extension() == ".zst") path.replace_extension();
  return path.extension().string();
}

// Which records can be among the first by id, while ids are not final: an id that is there twice gets a '#' and more
// behind it, and so stays below the id with a '$'.
class FirstIds {
 public:
  explicit FirstIds(size_t n) : n_(n) {}

  bool can_have(const std::string& id) const { return n_ == 0 || bounds_.size() < n_ || id <= bounds_.front(); }

  void add(const std::string& id) {
    if (n_ == 0) return;
    bounds_.push_back(id + "$");
    std::ranges::push_heap(bounds_);
    if (bounds_.size() <= n_) return;
    std::ranges::pop_heap(bounds_);
    bounds_.pop_back();
  }

 private:
  size_t n_;                         // 0: all
  std::vector<std::string> bounds_;  // heap of the n smallest
};

// Collects the records of all files; ids are final when all are there.
class Collector {
 public:
  explicit Collector(const PromptLoadOptions& options) : options_(options), first_(options.first) {}

  /// `read` is given what takes the blocks of the file.
  template <class Read>
  void add_file(const std::string& name, Read&& read) {
    name_ = name;
    folder_ = std::filesystem::path(name).parent_path();
    const std::string extension = extension_of(name);
    const bool values = extension == ".json";
    RecordSplitter splitter(values ? RecordSplitter::Form::Values : RecordSplitter::Form::Lines, name,
                            options_.max_line_bytes, [&](const RecordSplitter::Record& record) { add(record); });
    std::string text;  // of a file that is one prompt
    bool begun = false;
    read([&](std::string_view block) {
      if (block.empty()) return;
      if (!std::exchange(begun, true)) refuse_foreign_format(block, name);
      if (extension != ".txt") return splitter.add(block);
      if (text.size() <= options_.max_line_bytes) text += block;
    });
    if (extension == ".txt") return add_text_file(text);
    splitter.end();
  }

  size_t n_skipped() const { return set_.skipped.size(); }

  PromptSet finish() {
    if (set_.records.empty())
      fail("no prompt in the set" +
           (set_.skipped.empty() ? std::string() : "; the first one skipped: " + set_.skipped.front()));
    drop_others();
    tell_repeated_ids_apart();
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

  void add(const RecordSplitter::Record& record) {
    const std::string source = record.index > 0 ? name_ + ": record " + std::to_string(record.index)
                                                : name_ + ":" + std::to_string(record.line);
    add(source, [&] {
      check_size(record.n_bytes);
      return parse_prompt_record(parse_json(valid(record.text), {.keep_large_integers = true}));
    });
  }

  template <class Make>
  void add(const std::string& source, Make&& make) {
    try {
      PromptRecord r = make();
      locate_files(r, folder_);
      r.source = source;
      keep(std::move(r));
    } catch (const Error& e) {
      if (!options_.skip_bad) fail(source + ": " + e.what());
      set_.skipped.push_back(source + ": " + e.what());
    }
  }

  void keep(PromptRecord&& r) {
    r.is_named = !r.id.empty();
    if (!r.is_named) r.id = sha256_hex(r.canonical).substr(0, kIdDigits);
    if (!first_.can_have(r.id)) return;
    if (set_.records.size() >= options_.max_records)
      fail("more than " + std::to_string(options_.max_records) + " prompts; use fewer");
    first_.add(r.id);
    set_.records.push_back(std::move(r));
    if (set_.records.size() >= 2 * n_kept_ + kFewRecords) drop_others();
  }

  void drop_others() {
    std::erase_if(set_.records, [&](const PromptRecord& r) { return !first_.can_have(r.id); });
    n_kept_ = set_.records.size();
  }

  void add_text_file(const std::string& bytes) {
    add(name_ + ":1", [&] {
      check_size(bytes.size());
      std::string text = valid(bytes);
      if (text.ends_with('\n')) text.pop_back();
      if (text.ends_with('\r')) text.pop_back();
      return text_record(std::move(text));
    });
  }

  // Of prompts with one id, contents make the difference, so that it does not matter which comes first.
  void tell_repeated_ids_apart() {
    std::unordered_map<std::string_view, const PromptRecord*> given;
    std::set<std::string> repeated;
    for (const PromptRecord& r : set_.records) {
      if (!r.is_named) continue;
      const auto [it, fresh] = given.emplace(r.id, &r);
      if (!fresh && it->second->canonical != r.canonical) repeated.insert(r.id);
    }
    if (repeated.empty()) return;
    set_.notes.push_back(std::to_string(repeated.size()) + " id(s) are used for several prompts, first " +
                         quoted(*repeated.begin()) +
                         ": each of these got a '#' and digits of its content after its id");
    for (PromptRecord& r : set_.records)
      if (r.is_named && repeated.contains(r.id)) r.id += "#" + sha256_hex(r.canonical).substr(0, kIdDigits);
  }

  // Default ids come from the content alone, so that neither order nor file matters; equal records are told apart by a
  // number, which again is the same whichever comes first.
  void number_records() {
    std::unordered_set<std::string> given;
    for (const PromptRecord& r : set_.records)
      if (r.is_named) given.insert(r.id);
    std::unordered_map<std::string, int> uses;
    for (PromptRecord& r : set_.records) {
      const std::string base = r.id;
      do {
        const int n = ++uses[base];
        r.id = n == 1 ? base : base + "#" + std::to_string(n);
      } while ((!r.is_named || r.id != base) && given.contains(r.id));
    }
  }

  static constexpr size_t kFewRecords = 1024;

  PromptLoadOptions options_;
  FirstIds first_;
  size_t n_kept_ = 0;  // after the last that were dropped
  std::string name_;   // of the file being read
  std::filesystem::path folder_;
  PromptSet set_;
};

void expect_prompts(std::string_view head, const std::string& name) {
  const FileKind kind = kind_of_bytes(head);
  if (kind != FileKind::Unknown && kind != FileKind::Prompts) fail(other_kind(name, kind, "prompts"));
}

// Reads a file's records; where that fails since the file is of another kind, says so.
void add_prompt_file(Collector& collector, const std::filesystem::path& path, size_t max_bytes) {
  constexpr size_t kHead = size_t{1} << 16;
  const std::string name = path == "-" ? "standard input" : path.string();
  const size_t n_skipped = collector.n_skipped();
  std::string head;
  try {
    collector.add_file(name, [&](const TakeBlock& take) {
      read_prompt_file(path, max_bytes, [&](std::string_view block) {
        head += block.substr(0, kHead - std::min(kHead, head.size()));
        take(block);
      });
    });
    // Some lines of another kind of file may be records.
    if (collector.n_skipped() > n_skipped) expect_prompts(head, name);
  } catch (const Error&) {
    if (head.empty() && kind_of_file(path) != FileKind::Prompts)  // a folder, or nothing that can be read
      expect_kind(FileKind::Compressed, "prompts", path);
    expect_prompts(head, name);
    throw;
  }
}

bool ends_with_assistant(const Json& messages) {
  const Json* role = find_member(messages.back(), "role");
  return role && *role == "assistant";
}

class PromptTokenizer {
 public:
  PromptTokenizer(const Tokenizer* tokenizer, const ChatTemplate* chat_template, const TokenizeOptions& options)
      : tokenizer_(tokenizer), template_(chat_template), options_(options) {}

  TokenizedPrompt run(const PromptRecord& r, TokenizedSet& set) const {
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
      set.replaced += encoded.replaced;
      if (r.kind == PromptKind::Chat) {
        ChatTokenKinds kinds = chat_token_kinds(chat, out.text, out.input_ids, *template_, *tokenizer_);
        out.kinds = std::move(kinds.of_tokens);
        set.n_not_told_apart += kinds.complete ? 0 : 1;
        set.n_written_as_python += has_python_notation(chat, "tool_calls", out.text) ? 1 : 0;
        if (has_python_notation(chat, "content", out.text))
          fail("the chat template writes the parts of a content as Python prints them; give the content as one text");
      }
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
    if (!template_)
      fail(
          "is a chat, but the model has no chat template; put the one that it is served with into its folder as "
          "chat_template.jinja, or give raw text as \"text\"");
    ChatInput input;
    input.messages = served_messages(r.messages, template_->contents(!r.tools.is_null()));
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
  for (const std::filesystem::path& path : paths) add_prompt_file(collector, path, options.max_file_bytes);
  return collector.finish();
}

PromptSet parse_prompts(std::string_view text, const std::string& name, const PromptLoadOptions& options) {
  Collector collector(options);
  collector.add_file(name, [&](const TakeBlock& take) { take(text); });
  return collector.finish();
}

std::vector<std::string> notes_on(const TokenizedSet& set) {
  std::vector<std::string> notes;
  if (set.n_not_told_apart > 0)
    notes.push_back(
        std::to_string(set.n_not_told_apart) +
        " chat(s) have too many messages to tell all of them apart: some of their tokens count as role other");
  if (set.n_written_as_python > 0)
    notes.push_back(
        "in " + std::to_string(set.n_written_as_python) +
        " chat(s) the chat template writes arguments of tool calls as Python prints them, as it does in vLLM; "
        "it may expect them as a text");
  return notes;
}

TokenizedSet tokenize_prompts(const PromptSet& set, const Tokenizer* tokenizer, const ChatTemplate* chat_template,
                              const TokenizeOptions& options) {
  TokenizedSet out;
  const PromptTokenizer run(tokenizer, chat_template, options);
  int64_t n_tokens = 0;
  for (const PromptRecord& r : set.records) {
    if (options.max_prompts > 0 && static_cast<int64_t>(out.prompts.size()) == options.max_prompts) break;
    const std::string who = "prompt " + quoted(r.id) + " (" + r.source + ")";
    try {
      TokenizedPrompt prompt = run.run(r, out);
      n_tokens += prompt.weight * static_cast<int64_t>(prompt.input_ids.size());
      if (options.max_tokens > 0 && n_tokens > options.max_tokens && !out.prompts.empty()) break;
      out.n_truncated += prompt.truncated ? 1 : 0;
      out.prompts.push_back(std::move(prompt));
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
