#include "doctor/serve_command.h"

#include <algorithm>
#include <array>

namespace kvcal {
namespace {

constexpr size_t kMostWords = 4096;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

struct Word {
  std::string text;
  bool quoted = false;
};

// One word of a shell command from text[at]; at moves behind it. Line ends and operators end a word.
Word read_word(std::string_view text, size_t& at) {
  Word word;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == quote)
        quote = 0;
      else
        word.text += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      word.quoted = true;
    } else if (c == '\\' && at + 1 < text.size()) {
      word.text += text[++at];
    } else if (is_space(c) || c == '\n' || std::string_view(";|&<>`").find(c) != std::string_view::npos) {
      break;
    } else {
      word.text += c;
    }
  }
  return word;
}

// The words up to the end of the command.
std::vector<std::string> read_words(std::string_view text) {
  std::vector<std::string> words;
  size_t at = 0;
  while (at < text.size() && words.size() < kMostWords) {
    if (text[at] == '\\' && at + 1 < text.size() && (text[at + 1] == '\n' || text[at + 1] == '\r')) {
      at = text.find('\n', at);
      at = at == std::string_view::npos ? text.size() : at + 1;
    } else if (is_space(text[at])) {
      ++at;
    } else if (text[at] == '#' || text[at] == '\n' ||
               std::string_view(";|&<>`").find(text[at]) != std::string_view::npos) {
      break;
    } else {
      const Word word = read_word(text, at);
      if (word.text != "\\" && (word.quoted || !word.text.empty())) words.push_back(word.text);
    }
  }
  return words;
}

struct Program {
  std::string_view needle;  // how the command begins
  Engine server;
};
constexpr std::array kPrograms = {
    Program{"vllm serve ", Engine::Vllm},
    Program{"vllm.entrypoints.", Engine::Vllm},
    Program{"sglang.launch_server ", Engine::Sglang},
    Program{"sglang serve ", Engine::Sglang},
    Program{"lmdeploy serve api_server ", Engine::LmDeploy},
    Program{"llama-server ", Engine::LlamaCpp},
    Program{"llama-cli ", Engine::LlamaCpp},
};

bool is_environment(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](char c) { return c == '_' || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); });
}

// The assignments on the line in front of the program.
void read_environment(std::string_view line, ServeCommand& command) {
  for (const std::string& word : read_words(line))
    if (is_environment(word))
      command.environment.emplace(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
}

bool is_value(const std::string& word) {
  const bool negative = word.size() > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9';
  return !word.starts_with("-") || negative;
}

// "--a=b", "--a b", "--a"; a word that no option takes is the model where none is known yet.
void read_flags(ServeCommand& command) {
  const std::vector<std::string>& words = command.words;
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("-") || word.size() < 2) continue;
    const size_t equals = word.find('=');
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (equals == std::string::npos && i + 1 < words.size() && is_value(words[i + 1])) value = words[++i];
    command.flags.emplace(flag_name(word.substr(0, equals)), value);
  }
  for (const char* key : {"model", "model-path", "m"})
    if (const auto found = command.flags.find(key); found != command.flags.end() && command.model.empty())
      command.model = found->second;
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:=,@%+").find(c) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string flag_name(std::string_view word) {
  while (word.starts_with("-")) word.remove_prefix(1);
  std::string name(word);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<ServeCommand> find_serve_command(std::string_view text) {
  const Program* first = nullptr;
  size_t at = std::string_view::npos;
  for (const Program& program : kPrograms)
    if (const size_t found = text.find(program.needle); found < at) {
      at = found;
      first = &program;
    }
  if (first == nullptr) return std::nullopt;
  ServeCommand command;
  command.server = first->server;
  const size_t line = text.rfind('\n', at);
  const size_t begin = line == std::string_view::npos ? 0 : line + 1;
  read_environment(text.substr(begin, at - begin), command);
  command.words = read_words(text.substr(at));
  // "vllm serve MODEL": the program has two words, or three, and the model comes next.
  const auto n_words = static_cast<size_t>(std::count(first->needle.begin(), first->needle.end(), ' '));
  const bool model_next = first->needle.find(" serve ") != std::string_view::npos;
  if (model_next && command.words.size() > n_words && is_value(command.words[n_words]))
    command.model = command.words[n_words];
  read_flags(command);
  return command;
}

std::string command_without(const ServeCommand& command, const std::vector<std::string>& flags) {
  std::string text;
  for (const auto& [name, value] : command.environment) text += name + "=" + shell_quoted(value) + " ";
  if (!command.words.empty() && command.words.front().find('.') != std::string::npos) text += "python -m ";
  for (size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i];
    const std::string name = word.starts_with("-") ? flag_name(word.substr(0, word.find('='))) : "";
    if (std::find(flags.begin(), flags.end(), name) == flags.end() || name.empty()) {
      text += (text.empty() || text.back() == ' ' ? "" : " ") + shell_quoted(word);
    } else if (word.find('=') == std::string::npos && i + 1 < command.words.size() && is_value(command.words[i + 1])) {
      ++i;
    }
  }
  return text;
}

/// Behind a value without quotes: a word, or what stands between braces, with them.
static size_t end_of_bare(std::string_view text, size_t from) {
  if (from >= text.size() || text[from] != '{') return text.find_first_of(",)} ", from);
  int depth = 0;
  for (size_t at = from; at < text.size(); ++at) {
    depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    if (depth == 0) return at + 1;
  }
  return std::string_view::npos;
}

std::optional<std::string> printed_value(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) || text[at - 1] == '_')) continue;
    size_t from = at + key.size();
    if (from < text.size() && (text[from] == '\'' || text[from] == '"')) ++from;
    if (from >= text.size() || (text[from] != '=' && text[from] != ':')) continue;
    ++from;
    while (from < text.size() && text[from] == ' ') ++from;
    const char quote = from < text.size() && (text[from] == '\'' || text[from] == '"') ? text[from] : '\0';
    if (quote != '\0') ++from;
    const size_t end = quote != '\0' ? text.find(quote, from) : end_of_bare(text, from);
    const std::string value(text.substr(from, end == std::string_view::npos ? end : end - from));
    if (value == "None" && quote == '\0') return std::nullopt;
    return value;
  }
  return std::nullopt;
}

}  // namespace kvcal
