#include "doctor/output_text.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/letter_case.h"
#include "base/or_nothing.h"

namespace kvcal {
namespace {

constexpr size_t kMostPeriod = 256;

bool is_letter(unsigned char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80; }

// Characters that people repeat on purpose: rulers, indentation, leaders, tables, padding.
bool is_ornament(unsigned char c) {
  return c <= ' ' || std::string_view("-_=*#.~+|:/\\<>0").find(static_cast<char>(c)) != std::string_view::npos;
}

// How often a unit of this length must follow itself before it is a loop. Short units need more: "ha ha ha ha".
size_t needed_repeats(size_t period) { return period <= 2 ? 16 : period <= 8 ? 12 : period <= 32 ? 5 : 4; }

bool can_loop(std::string_view unit) {
  if (unit.size() == 1) return !is_ornament(static_cast<unsigned char>(unit[0]));
  if (std::count(unit.begin(), unit.end(), unit[0]) == static_cast<std::ptrdiff_t>(unit.size())) return false;
  // A character of several bytes, again and again, begins with a lead byte.
  if ((static_cast<unsigned char>(unit[0]) & 0xC0) == 0x80) return false;
  return std::any_of(unit.begin(), unit.end(), [](char c) { return is_letter(static_cast<unsigned char>(c)); });
}

struct Run {
  size_t begin = 0, length = 0, period = 0;
};

// The longest stretch in which every byte equals the one `period` before it, if it is long enough for a loop.
std::optional<Run> longest_run(std::string_view text, size_t period) {
  std::optional<Run> best;
  size_t equal = 0;
  const auto close = [&](size_t end) {
    const size_t length = equal + period;
    if (equal == 0 || length < needed_repeats(period) * period || (best && length <= best->length)) return;
    const size_t begin = end - length;
    if (can_loop(text.substr(begin, period))) best = Run{begin, length, period};
  };
  for (size_t i = period; i < text.size(); ++i) {
    if (text[i] == text[i - period]) {
      ++equal;
    } else {
      if (equal != 0) close(i);
      equal = 0;
    }
  }
  close(text.size());
  return best;
}

OutputTrouble trouble_of(std::string_view text, const Run& run, OutputTrouble::Kind kind) {
  OutputTrouble trouble;
  trouble.kind = kind;
  trouble.at_byte = run.begin;
  trouble.line =
      1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(run.begin), '\n'));
  trouble.unit = text.substr(run.begin, run.period);
  trouble.n_repeats = run.period == 0 ? 0 : run.length / run.period;
  return trouble;
}

enum Script : uint8_t {
  kLatin,
  kCyrillic,
  kArabic,
  kIndic,
  kThai,
  kHangul,
  kHan,
  kKana,
  kHebrew,
  kBroken,
  kScripts,
  kNone
};

Script script_of(uint32_t c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c < 0x250)) return kLatin;
  if (c >= 0x400 && c < 0x530) return kCyrillic;
  if (c >= 0x590 && c < 0x600) return kHebrew;
  if (c >= 0x600 && c < 0x780) return kArabic;
  if (c >= 0x900 && c < 0xE00) return kIndic;
  if (c >= 0xE00 && c < 0xE80) return kThai;
  if (c >= 0x3040 && c < 0x3100) return kKana;
  if (c >= 0x4E00 && c < 0xA000) return kHan;
  if (c >= 0xAC00 && c < 0xD7B0) return kHangul;
  return c == 0xFFFD ? kBroken : kNone;
}

// One character and how many bytes it took; bytes that are no UTF-8 count as U+FFFD.
uint32_t next_character(std::string_view text, size_t& at) {
  const auto byte = static_cast<unsigned char>(text[at++]);
  if (byte < 0x80) return byte;
  const size_t more = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : byte >= 0xC2 ? 1 : 0;
  if (more == 0 || at + more > text.size()) return 0xFFFD;
  uint32_t c = byte & (0x3Fu >> more);
  for (size_t k = 0; k < more; ++k) {
    const auto next = static_cast<unsigned char>(text[at + k]);
    if ((next & 0xC0) != 0x80) return 0xFFFD;
    c = c << 6 | (next & 0x3F);
  }
  at += more;
  return c;
}

// Scripts that change inside words, and characters that are none: what decoding noise looks like. Texts in several
// languages change scripts between words, Japanese between Han and kana.
bool is_soup(std::string_view text) {
  std::array<size_t, kScripts> seen{};
  size_t letters = 0, changes = 0;
  Script last = kNone;
  for (size_t at = 0; at < text.size();) {
    const Script script = script_of(next_character(text, at));
    if (script != kNone) {
      ++letters;
      ++seen[script];
      const bool japanese = (script == kHan || script == kKana) && (last == kHan || last == kKana);
      if (last != kNone && last != script && !japanese) ++changes;
    }
    last = script;
  }
  if (letters < 40) return false;
  const auto scripts = std::count_if(seen.begin(), seen.end(), [&](size_t n) { return n * 100 >= letters * 3; });
  return (scripts >= 4 && changes * 20 >= letters) || seen[kBroken] * 10 >= letters;
}

// "the of of,, the and and  and": the same word twice, with no more than spaces, commas and stops between, again and
// again. In 3,600 pieces of prose, code and lists the share was 13 % at most.
bool is_stutter(std::string_view text) {
  constexpr size_t kFewest = 6, kPercent = 15;
  size_t n_words = 0, n_doubled = 0;
  std::string last, word;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? lower_case(text[i]) : ' ';
    if (c >= 'a' && c <= 'z') {
      word += c;
      continue;
    }
    if (!word.empty()) {
      ++n_words;
      n_doubled += word == last;
      last = std::exchange(word, "");
    }
    if (std::string_view(" \t\r\n,.").find(c) == std::string_view::npos) last.clear();
  }
  return n_doubled >= kFewest && n_doubled * 100 >= n_words * kPercent;
}

}  // namespace

std::vector<OutputTrouble> examine_output(std::string_view text) {
  const size_t skipped = text.size() > kMostOutputBytes ? text.size() - kMostOutputBytes : 0;
  const std::string_view end = text.substr(skipped);
  const size_t lines_before =
      static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(skipped), '\n'));
  std::vector<OutputTrouble> troubles;
  if (const auto run = longest_run(end, 1))
    troubles.push_back(trouble_of(end, *run, OutputTrouble::Kind::OneCharacter));
  std::optional<Run> loop;
  for (size_t period = 2; period <= kMostPeriod; ++period)
    // A multiple of a period repeats as well: the shortest one that reaches as far is the unit.
    if (const auto run = longest_run(end, period); run && (!loop || run->length > loop->length + period)) loop = run;
  if (loop) troubles.push_back(trouble_of(end, *loop, OutputTrouble::Kind::Loop));
  if (is_soup(end) || (troubles.empty() && is_stutter(end)))
    troubles.push_back(trouble_of(end, {0, end.size(), 0}, OutputTrouble::Kind::Soup));
  for (OutputTrouble& trouble : troubles) {
    trouble.at_byte += skipped;
    trouble.line += lines_before;
  }
  return troubles;
}

namespace {

/// {"content": [{"token": " a", ...}, ...]} of chats, {"tokens": [" a", ...]} of completions.
std::vector<std::string> tokens_of(const Json& logprobs) {
  std::vector<std::string> tokens;
  for (const char* key : {"content", "tokens"})
    for (const Json& token : list_at(logprobs, key))
      tokens.push_back(token.is_string() ? token.get<std::string>() : text_at(token, "token"));
  return tokens;
}

std::vector<double> values_of(const Json& candidates) {
  std::vector<double> values;
  for (const Json& candidate : candidates) {
    const Json* value = candidate.is_object() ? find_member(candidate, "logprob") : &candidate;
    if (value != nullptr && value->is_number()) values.push_back(value->get<double>());
  }
  return values;
}

/// {"content": [{"top_logprobs": [{"logprob": -0.1}, ...]}, ...]} of chats, {"top_logprobs": [{" a": -0.1}, ...]} of
/// completions.
std::vector<std::vector<double>> candidates_of(const Json& logprobs) {
  std::vector<std::vector<double>> all;
  for (const Json& token : list_at(logprobs, "content")) all.push_back(values_of(list_at(token, "top_logprobs")));
  for (const Json& candidates : list_at(logprobs, "top_logprobs"))
    if (candidates.is_structured()) all.push_back(values_of(candidates));
  return all;
}

std::vector<double> tied_logits_of(const Json& logprobs) {
  constexpr size_t kFirst = 5;
  std::vector<double> tied;
  for (std::vector<double>& values : candidates_of(logprobs)) {
    std::sort(values.begin(), values.end(), std::greater<>());
    if (values.size() > kFirst) values.resize(kFirst);
    const bool tie = std::adjacent_find(values.begin(), values.end()) != values.end();
    if (tie && values.front() > 0) tied.push_back(values.front());
  }
  return tied;
}

// Servers before and after the field got its short name.
std::string reasoning_of(const Json& message) {
  const std::string reasoning = text_at(message, "reasoning");
  return reasoning.empty() ? text_at(message, "reasoning_content") : reasoning;
}

ResponseText response_of(const Json& choice) {
  ResponseText response;
  const Json* message = find_member(choice, "message");
  response.text = message != nullptr ? text_at(*message, "content") : text_at(choice, "text");
  response.finish_reason = text_at(choice, "finish_reason");
  if (message != nullptr && response.text.empty() && list_at(*message, "tool_calls").empty()) {
    response.text = reasoning_of(*message);
    response.only_reasoning = !response.text.empty();
  }
  if (const Json* logprobs = find_member(choice, "logprobs")) {
    response.tokens = tokens_of(*logprobs);
    response.tied_logits = tied_logits_of(*logprobs);
  }
  std::string joined;
  for (const std::string& token : response.tokens) joined += token;
  if (response.text.empty()) response.text = joined;
  if (joined != response.text) response.tokens.clear();  // characters that are split over tokens are not in their texts
  return response;
}

}  // namespace

std::vector<ResponseText> responses_in(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return {};
  std::vector<ResponseText> responses;
  const Json json = or_nothing([&] { return parse_json(text); });  // a text may begin with a brace
  for (const Json& choice : list_at(json, "choices"))
    if (choice.is_object()) responses.push_back(response_of(choice));
  return responses;
}

bool is_text_of_model(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return false;
  text.remove_prefix(first);
  if (text.starts_with("data:") || text.starts_with("event:")) return text.find("\"choices\"") != text.npos;
  for (const std::string_view error : {"curl: (", "Error:", "HTTP/", "Internal Server Error", "Bad Gateway",
                                       "Service Unavailable", "Gateway Time", "Not Found", "upstream ", "no healthy",
                                       "Traceback (most recent call last)", "<html", "<HTML", "<!DOCTYPE", "<!doctype"})
    if (text.starts_with(error)) return false;
  if (text.front() != '{') return true;
  const Json json = or_nothing([&] { return parse_json(text); });
  for (const char* key : {"error", "detail", "choices"})  // of vLLM and SGLang, of FastAPI; none was chosen
    if (find_member(json, key) != nullptr) return false;
  return text_at(json, "object") != "error";  // of their versions before {"error": ...}
}

int64_t token_at(const ResponseText& response, size_t byte) {
  size_t end = 0;
  for (size_t i = 0; i < response.tokens.size(); ++i)
    if ((end += response.tokens[i].size()) > byte) return static_cast<int64_t>(i);
  return -1;
}

}  // namespace kvcal
