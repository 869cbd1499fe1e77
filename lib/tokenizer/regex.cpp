#include "tokenizer/regex.h"

#include <oniguruma.h>

#include <cstring>

#include "base/error.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kLongestPattern = size_t{64} << 10;        // bytes; the longest one met in real files is under 1 KiB
constexpr unsigned kMatchStackLimit = 2'000'000;            // entries of a few words each
constexpr unsigned long kRetryLimitInMatch = 10'000'000;    // Oniguruma's own default, spelled out
constexpr unsigned long kRetryLimitInSearch = 100'000'000;  // about a second

void initialize_once() {
  static const int done = [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    return onig_initialize(encodings, 1);
  }();
  if (done != ONIG_NORMAL) fail("cannot initialize Oniguruma");
}

std::string message_of(int code, OnigErrorInfo* info) {
  UChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int n = info ? onig_error_code_to_str(text, code, info) : onig_error_code_to_str(text, code);
  return std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(n));
}

const UChar* bytes_of(std::string_view s) { return reinterpret_cast<const UChar*>(s.data()); }

// The brackets of "[:name:]" or "[:^name:]" at the beginning of `text`, or nothing.
std::string_view posix_bracket(std::string_view text) {
  if (!text.starts_with("[:")) return {};
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz^", 2);
  return end != text.npos && text.substr(end).starts_with(":]") ? text.substr(0, end + 2) : std::string_view();
}

// What [:punct:] was until Oniguruma 6.9.8 lacks the symbols ($+<=>^`|~ and those beyond ASCII), which the reference's
// newer one counts. Printable symbols, since options can narrow the class to ASCII.
std::string with_symbols_as_punctuation(std::string_view pattern) {
  std::string out;
  int depth = 0;  // of classes inside each other
  for (size_t i = 0; i < pattern.size();) {
    const std::string_view rest = pattern.substr(i);
    const std::string_view bracket = depth > 0 ? posix_bracket(rest) : std::string_view();
    std::string_view taken = rest.substr(0, rest[0] == '\\' ? 2 : 1);
    if (!bracket.empty()) {
      taken = bracket;
    } else if (depth == 0 && rest.starts_with("(?#")) {
      taken = rest.substr(0, rest.find(')'));
    } else if (rest[0] == '[') {
      ++depth;
      size_t n = rest.starts_with("[^") ? 2 : 1;
      if (rest.substr(n).starts_with(']')) ++n;  // stands for itself there
      taken = rest.substr(0, n);
    } else if (rest[0] == ']' && depth > 0) {
      --depth;
    }
    const bool negative = bracket == "[:^punct:]";
    if (negative || bracket == "[:punct:]")
      out += std::string(negative ? "[^" : "[") + "[:punct:][\\p{S}&&[:graph:]]]";
    else
      out += taken;
    i += taken.size();
  }
  return out;
}

struct FreeRegion {
  void operator()(OnigRegion* r) const { onig_region_free(r, 1); }
};

}  // namespace

struct Regex::Compiled {
  regex_t* regex = nullptr;
  OnigMatchParam* limits = nullptr;
  ~Compiled() {
    if (limits) onig_free_match_param(limits);
    if (regex) onig_free(regex);
  }
};

Regex::Regex(std::string pattern) : pattern_(std::move(pattern)), compiled_(std::make_unique<Compiled>()) {
  initialize_once();
  if (pattern_.size() > kLongestPattern)
    fail("regular expression of " + std::to_string(pattern_.size()) + " bytes, at most " +
         std::to_string(kLongestPattern) + " are accepted");
  OnigErrorInfo info;
  const std::string compiled = with_symbols_as_punctuation(pattern_);
  const UChar* p = bytes_of(compiled);
  const int code = onig_new(&compiled_->regex, p, p + compiled.size(), ONIG_OPTION_NONE, ONIG_ENCODING_UTF8,
                            ONIG_SYNTAX_ONIGURUMA, &info);
  if (code != ONIG_NORMAL) {
    compiled_->regex = nullptr;
    fail("regular expression " + quoted(pattern_) + " does not compile: " + message_of(code, &info));
  }
  compiled_->limits = onig_new_match_param();
  if (!compiled_->limits) fail("out of memory for a regular expression");
  onig_initialize_match_param(compiled_->limits);
  onig_set_match_stack_limit_size_of_match_param(compiled_->limits, kMatchStackLimit);
  onig_set_retry_limit_in_match_of_match_param(compiled_->limits, kRetryLimitInMatch);
  onig_set_retry_limit_in_search_of_match_param(compiled_->limits, kRetryLimitInSearch);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::vector<ByteRange> Regex::find_all(std::string_view text, Allowance& allowance) const {
  allowance.look_at(text.size());
  Allowance::Clock clock(allowance);
  std::vector<ByteRange> found;
  const std::unique_ptr<OnigRegion, FreeRegion> region(onig_region_new());
  const UChar* begin = bytes_of(text);
  const UChar* end = begin + text.size();
  size_t from = 0;
  while (from <= text.size()) {
    const int at = onig_search_with_param(compiled_->regex, begin, end, begin + from, end, region.get(),
                                          ONIG_OPTION_NONE, compiled_->limits);
    clock.spend();
    if (at == ONIG_MISMATCH) break;
    if (at < 0)
      fail("regular expression " + quoted(pattern_) + " at byte " + std::to_string(from) + " of " +
           std::to_string(text.size()) + ": " + message_of(at, nullptr));
    const ByteRange m{static_cast<size_t>(region->beg[0]), static_cast<size_t>(region->end[0])};
    if (m.size() == 0 && !found.empty() && found.back().end == m.end) {
      // An empty match behind the previous match would repeat for ever; try one character further on.
      from = m.end < text.size() ? m.end + utf8_length(text[m.end]) : text.size() + 1;
      continue;
    }
    found.push_back(m);
    from = m.end;
  }
  return found;
}

std::vector<ByteRange> find_all_literal(std::string_view text, std::string_view literal) {
  std::vector<ByteRange> found;
  if (literal.empty()) {
    for (size_t i = 0; i < text.size(); i += utf8_length(text[i])) found.push_back({i, i});
    found.push_back({text.size(), text.size()});
    return found;
  }
  // memmem is linear whatever is looked for, where std::string_view::find takes the product of both lengths.
  for (size_t i = 0; i < text.size();) {
    const void* at = memmem(text.data() + i, text.size() - i, literal.data(), literal.size());
    if (!at) break;
    i = static_cast<size_t>(static_cast<const char*>(at) - text.data());
    found.push_back({i, i + literal.size()});
    i += literal.size();
  }
  return found;
}

}  // namespace kvcal
