#include "prompts/needles.h"

#include <algorithm>

#include "base/error.h"
#include "base/sha256.h"
#include "prompts/chat_template.h"
#include "prompts/haystack.h"
#include "prompts/prompt_record.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

constexpr size_t kMostPrompts = 1000;
constexpr int64_t kLongest = int64_t{1} << 24;  // tokens; no model's context is longer
// Tokens are shorter, but for runs of white space and of what a tokenizer does not know.
constexpr size_t kUsualBytes = 8, kMostBytes = 64;  // of text for each token

void check_each_once(const char* what, std::vector<int64_t> values) {
  if (values.empty()) fail(std::string("no ") + what);
  std::ranges::sort(values);
  const auto twice = std::ranges::adjacent_find(values);
  if (twice != values.end()) fail(std::string(what) + " " + std::to_string(*twice) + " twice");
}

/// Six digits that are not in the text.
std::string number_for(int64_t length, int64_t depth, std::string_view text) {
  constexpr int kMostTried = 100;
  for (int i = 0; i < kMostTried; ++i) {
    const std::string hash = sha256_hex(needle_tag(length, depth) + " " + std::to_string(i));
    const std::string number = std::to_string(100'000 + std::stoull(hash.substr(0, 12), nullptr, 16) % 900'000);
    if (text.find(number) == std::string_view::npos) return number;
  }
  fail("the prompts' text holds every number that was tried as a needle; is it a list of numbers?");
}

std::string with_needle(std::string_view text, size_t at, const std::string& number) {
  const std::string needle = "The pass number is " + number + ". Remember it: " + number + " is the pass number.";
  std::string out(text.substr(0, at));
  if (at == text.size()) return out + (at > 0 ? "\n" : "") + needle;
  // Between sentences as they are: on a line of its own, or behind a space.
  const char between = at > 0 && text[at] == '\n' ? '\n' : ' ';
  if (at > 0) out += between;
  out += needle;
  if (text[at] != '\n' && text[at] != ' ') out += between;
  return out + std::string(text.substr(at));
}

PromptRecord record_of(const std::string& text, bool chat) {
  if (!chat) return text_record(text + "\n\nQuestion: What is the pass number?\nAnswer: The pass number is");
  return parse_prompt_record(
      {{"messages",
        Json::array({{{"role", "user"},
                      {"content", text + "\n\nWhat is the pass number in this text? Answer with the number."}}})}});
}

class Maker {
 public:
  Maker(std::string text, const Tokenizer& tokenizer, const ChatTemplate* chat, const TokenizeOptions& options)
      : text_(std::move(text)), tokenizer_(tokenizer), chat_(chat), options_(options) {}

  PromptRecord make(int64_t length, int64_t depth, bool& repeats) const {
    const std::string number = number_for(length, depth, text_);
    const int64_t least = count(record_of(with_needle("", 0, number), chat_ != nullptr));
    if (least > length)
      fail("there is no room: needle, question and chat template alone have " + std::to_string(least) + " tokens");
    const auto tokens = static_cast<size_t>(length);
    for (size_t bytes = kUsualBytes * tokens;; bytes *= 2) {
      const Haystack haystack(text_, bytes);
      const auto prompt_until = [&](size_t cut) {
        const std::string_view part = haystack.until(cut);
        return record_of(with_needle(part, haystack.place(cut, depth), number), chat_ != nullptr);
      };
      const auto fits = [&](size_t cut) { return count(prompt_until(cut)) <= length; };
      const size_t all = haystack.n_cuts() - 1;
      if (fits(all)) {
        if (bytes > kMostBytes * tokens) fail("the prompts' text makes too few tokens; is it white space?");
        continue;
      }
      const size_t cut = last_that(fits, all);
      if (!fits(cut)) fail("there is no room for a word of the prompts' text");
      repeats = haystack.until(cut).size() > text_.size();
      return labelled(prompt_until(cut), length, depth, number);
    }
  }

 private:
  int64_t count(const PromptRecord& record) const {
    if (record.kind == PromptKind::Text) return static_cast<int64_t>(tokenizer_.encode(record.text, true).ids.size());
    ChatInput input;
    input.messages = record.messages;
    input.add_generation_prompt = true;
    input.extra = options_.template_kwargs;
    input.unix_seconds = options_.unix_seconds;
    const std::string text = chat_->render(input, tokenizer_.special_tokens());
    return static_cast<int64_t>(tokenizer_.encode(text, false).ids.size());
  }

  /// The last cut that fits; 0 where none does. One more word is nearly always at least one more token, but the needle
  /// moves with the cut, so the search looks a little further.
  template <class Fits>
  static size_t last_that(const Fits& fits, size_t too_far) {
    constexpr size_t kFurther = 8;
    size_t good = 0, bad = too_far;
    while (bad - good > 1) {
      const size_t middle = good + (bad - good) / 2;
      (fits(middle) ? good : bad) = middle;
    }
    for (size_t cut = std::min(good + kFurther, too_far - 1); cut > good; --cut)
      if (fits(cut)) return cut;
    return good;
  }

  static PromptRecord labelled(PromptRecord record, int64_t length, int64_t depth, const std::string& number) {
    const std::string l = std::to_string(length), d = std::to_string(depth);
    record.id = "needle-" + l + "-" + d;
    record.source = "needles";
    record.tags = {"needle", "needle " + l, "depth " + d, needle_tag(length, depth)};
    record.expect.emplace(Json(number));
    return record;
  }

  std::string text_;
  const Tokenizer& tokenizer_;
  const ChatTemplate* chat_;
  const TokenizeOptions& options_;
};

}  // namespace

void check(const NeedleOptions& options) {
  check_each_once("length", options.lengths);
  check_each_once("depth", options.depths);
  for (const int64_t length : options.lengths)
    if (length < 1 || length > kLongest)
      fail("length " + std::to_string(length) + ", expected 1 to " + std::to_string(kLongest) + " tokens");
  for (const int64_t depth : options.depths)
    if (depth < 0 || depth > 100) fail("depth " + std::to_string(depth) + ", expected a percentage, 0 to 100");
  const size_t n = options.lengths.size() * options.depths.size();
  if (n > kMostPrompts)
    fail(std::to_string(n) + " prompts, one for each length and depth; at most " + std::to_string(kMostPrompts));
}

std::string needle_tag(int64_t length, int64_t depth) {
  return "needle " + std::to_string(length) + " depth " + std::to_string(depth);
}

std::string repetition_notice(const NeedlePrompts& made) {
  if (made.n_repeating == 0) return "";
  return std::to_string(made.n_repeating) + " of " + std::to_string(made.set.records.size()) +
         " needle prompts repeat the texts, which are too short for them";
}

NeedlePrompts make_needle_prompts(const PromptSet& texts, const NeedleOptions& needles, const Tokenizer& tokenizer,
                                  const ChatTemplate* chat_template, const TokenizeOptions& options) {
  while_doing("needles", [&] { check(needles); });
  std::vector<int64_t> lengths = needles.lengths, depths = needles.depths;
  std::ranges::sort(lengths);
  std::ranges::sort(depths);
  if (options.max_length > 0 && lengths.back() > options.max_length)
    fail("needle prompts of " + std::to_string(lengths.back()) + " tokens, but the model's context has " +
         std::to_string(options.max_length));
  const size_t most = kMostBytes * static_cast<size_t>(lengths.back());
  const Maker maker(while_doing("needles", [&] { return joined_text(texts, most); }), tokenizer, chat_template,
                    options);
  NeedlePrompts made;
  made.set.skipped = texts.skipped;
  made.set.notes = texts.notes;
  made.set.replaced = texts.replaced;
  for (const int64_t length : lengths)
    for (const int64_t depth : depths) {
      bool repeats = false;
      made.set.records.push_back(while_doing("needle prompt of " + std::to_string(length) + " tokens",
                                             [&] { return maker.make(length, depth, repeats); }));
      made.n_repeating += repeats;
    }
  return made;
}

}  // namespace kvcal
