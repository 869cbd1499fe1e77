#include "doctor/shell_words.h"

#include <algorithm>

#include "base/letter_case.h"

namespace kvcal {
namespace {

constexpr size_t kMostWords = 4096;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_operator(char c) { return std::string_view(";|&<>`").find(c) != std::string_view::npos; }

struct Word {
  std::string text;
  bool quoted = false;
};

size_t behind_spaces(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

/// Where the command goes on, if its line ends at `at`: behind a mark of Unix, Windows or PowerShell, or with an
/// option, which begins no command: marks are lost where people paste. A "> " in front is a shell's prompt, or
/// Markdown's quotation. 0: nowhere.
size_t continuation(std::string_view text, size_t at) {
  const bool marked = std::string_view("\\^`").find(text[at]) != std::string_view::npos;
  const size_t end = marked ? behind_spaces(text, at + 1) : at;
  if (end >= text.size() || text[end] != '\n') return 0;
  size_t next = behind_spaces(text, end + 1);
  if (text.substr(next).starts_with("> ")) next = behind_spaces(text, next + 2);
  const std::string_view rest = text.substr(next);
  if (rest.size() > 2 && rest.starts_with("--") && is_letter_or_digit(rest[2])) return next;
  if (marked && rest.starts_with("-")) return next;
  return text[at] == '\\' ? end + 1 : 0;
}

// One word of a shell command from text[at]; at moves behind it. Line ends and operators end a word.
Word read_word(std::string_view text, size_t& at) {
  Word word;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else if (quote == '"' && c == '\\' && at + 1 < text.size() && (text[at + 1] == '"' || text[at + 1] == '\\'))
        word.text += text[++at];
      else
        word.text += c;
    } else if ((c == '\'' || c == '"') && !word.text.empty() && text.find(c, at + 1) == text.npos) {
      at = text.size();  // the end of a script that is in quotes itself
      break;
    } else if (c == '\'' || c == '"') {
      quote = c;
      word.quoted = true;
    } else if (c == '\\' && continuation(text, at) > 0) {
      break;
    } else if (c == '\\' && at + 1 < text.size()) {
      word.text += text[++at];
    } else if (is_space(c) || c == '\n' || is_operator(c)) {
      break;
    } else {
      word.text += c;
    }
  }
  return word;
}

}  // namespace

std::vector<std::string> read_words(std::string_view text, LineEnd line_end) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < text.size() && words.size() < kMostWords) {
    if (const size_t next = continuation(text, at); next > 0) {
      at = next;
    } else if (is_space(text[at]) || (text[at] == '\n' && line_end == LineEnd::IsSpace)) {
      ++at;
    } else if (text[at] == '#' || text[at] == '\n' || is_operator(text[at])) {
      break;
    } else {
      Word word = read_word(text, at);
      for (const std::string_view dash : {"\u2014", "\u2013"})  // what editors make of "--"
        if (word.text.starts_with(dash)) word.text.replace(0, dash.size(), "--");
      if (word.text != "\\" && (word.quoted || !word.text.empty())) words.push_back(word.text);
    }
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t from = text.find_first_not_of(kSpace);
  return from == text.npos ? std::string_view() : text.substr(from, text.find_last_not_of(kSpace) + 1 - from);
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return is_letter_or_digit(c) || std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string shell_quoted(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_quoted(word);
  return out;
}

std::string script_of(const std::vector<std::string>& words) {
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string& option = words[i + 1];
    const bool is_shell =
        words[i] == "sh" || words[i].ends_with("bash") || words[i].ends_with("/sh") || words[i] == "zsh";
    if (is_shell && option.size() >= 2 && option[0] == '-' && option[1] != '-' && option.ends_with("c"))
      return words[i + 2];
  }
  return "";
}

bool take_assignment(const std::string& word, std::map<std::string, std::string>& environment) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const bool is_name = std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                                   [](char c) { return c == '_' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); });
  if (is_name) environment.emplace(word.substr(0, equals), word.substr(equals + 1));
  return is_name;
}

}  // namespace kvcal
