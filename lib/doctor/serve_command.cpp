#include "doctor/serve_command.h"

#include <algorithm>

#include "base/error.h"
#include "doctor/container.h"
#include "doctor/launch_names.h"
#include "doctor/shell_words.h"

namespace kvcal {
namespace {

constexpr int kMostScripts = 4;  // sh -c 'sh -c ...'
constexpr int kMostOthers = 8;

bool is_value(const std::string& word) {
  const bool negative = word.size() > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9';
  return !word.starts_with("-") || negative;
}

// What the line of a command sets in front of it, and what lines before it export.
void read_environment(std::string_view text, size_t at, ServeCommand& command) {
  const size_t line = text.rfind('\n', at);
  const size_t begin = line == text.npos ? 0 : line + 1;
  for (const std::string& word : read_words(text.substr(begin, at - begin))) take_assignment(word, command.environment);
  constexpr std::string_view kExport = "export ";
  for (size_t from = 0; from < begin; from = text.find('\n', from) + 1)
    if (text.substr(from).starts_with(kExport))
      for (const std::string& word : read_words(text.substr(from + kExport.size())))
        take_assignment(word, command.environment);
}

/// lm_eval --model vllm --model_args pretrained=X,kv_cache_dtype=fp8.
void read_model_args(ServeCommand& command) {
  const std::string name = command.flags["model"];
  command.model.clear();
  if (name.starts_with("vllm")) command.server = Engine::Vllm;
  if (name.starts_with("sglang")) command.server = Engine::Sglang;
  if (command.server == Engine::Unknown)
    command.refusal = refusal_of("lm_eval", "the model type " + quoted(name.empty() ? "hf" : name) + " of lm_eval");
  const std::string given = command.flags["model-args"];
  command.flags.clear();
  for (size_t from = 0; from < given.size();) {
    const size_t end = std::min(given.find(',', from), given.size());
    const std::string part = given.substr(from, end - from);
    const size_t equals = std::min(part.find('='), part.size());
    const std::string value = part.substr(std::min(equals + 1, part.size()));
    if (part.starts_with("pretrained="))
      command.model = value;
    else if (value != "False" && equals > 0)
      command.flags.emplace(flag_name(part.substr(0, equals)), value == "True" ? "" : value);
    from = end + 1;
  }
}

struct Found {
  size_t at = std::string_view::npos;
  const Program* program = nullptr;  // null: a container or a call
};

/// One that there are rules for goes before others: a script may start a server and its client.
Found first_launch(std::string_view text) {
  Found covered, other;
  for (const Program& program : known_programs()) {
    Found& first = program.server != Engine::Unknown || program.uncovered == kByModelOption ? covered : other;
    if (const size_t at = text.find(program.needle); at < first.at) first = {at, &program};
  }
  return covered.program != nullptr ? covered : other;
}

ServeCommand read_program(std::string_view text, const Found& found) {
  ServeCommand command;
  const Program& program = *found.program;
  command.server = program.server;
  read_environment(text, found.at, command);
  command.words = read_words(text.substr(found.at));
  // "vllm serve MODEL": the program has two words, or three, and the model comes next.
  const auto n_words = static_cast<size_t>(std::count(program.needle.begin(), program.needle.end(), ' '));
  const bool model_next = program.needle.find(" serve ") != std::string_view::npos;
  if (model_next && command.words.size() > n_words && is_value(command.words[n_words]))
    command.model = command.words[n_words];
  read_flags(command);
  if (program.uncovered == kByModelOption)
    read_model_args(command);
  else if (!program.uncovered.empty())
    command.refusal = refusal_of(program.needle, program.uncovered);
  return command;
}

std::optional<ServeCommand> find_program(std::string_view text, const Found& program, int n_scripts) {
  if (program.program == nullptr) return std::nullopt;
  const size_t line = text.rfind('\n', program.at);
  const std::vector<std::string> words = read_words(text.substr(line == text.npos ? 0 : line + 1));
  const std::string script = script_of(words);
  const Found inner = first_launch(script);
  if (n_scripts == kMostScripts || inner.program == nullptr) return read_program(text, program);
  std::optional<ServeCommand> command = find_program(script, inner, n_scripts + 1);
  if (command) read_environment(text, program.at, *command);
  return command;
}

}  // namespace

std::optional<ServeCommand> find_program(std::string_view text) { return find_program(text, first_launch(text), 0); }

std::optional<ServeCommand> find_serve_command(std::string_view text) {
  const Found program = first_launch(text);
  // Containers and calls of other things may stand in front.
  std::string_view rest = text;
  for (int n = 0; n < kMostOthers; ++n) {
    const size_t before = text.size() - rest.size();
    const size_t container = find_container_run(rest), call = find_python_call(rest);
    const size_t first = std::min(container, call);
    if (first == rest.npos || before + first > program.at) break;
    std::optional<ServeCommand> command =
        container < call ? command_of(read_container_run(rest, container)) : read_python_call(rest, call);
    if (command) return command;
    rest.remove_prefix(first + 1);
  }
  return find_program(text, program, 0);
}

/// vLLM's other form of an option with members, "--speculative-config.method mtp": as JSON, after what is there.
static void add_member(std::string& json, std::string member, const std::string& value) {
  std::replace(member.begin(), member.end(), '-', '_');
  if (json.ends_with('}')) json.pop_back();
  json += std::string(json.empty() ? "{" : json == "{" ? "" : ", ") + "\"" + member + "\": \"" + value + "\"}";
}

/// What follows an option without a space in scripts that have none: a quotation mark, a particle.
static size_t first_of_prose(const std::string& word) {
  return static_cast<size_t>(std::ranges::find_if(word, [](char c) { return (c & 0x80) != 0; }) - word.begin());
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
    const std::string name = flag_name(word.substr(0, std::min(equals, first_of_prose(word))));
    if (const size_t dot = name.find('.'); dot != std::string::npos && word.starts_with("--"))
      add_member(command.flags[name.substr(0, dot)], name.substr(dot + 1), value);
    else
      command.flags.emplace(name, value);
  }
  for (const char* key : {"model", "model-path", "m"})
    if (const auto found = command.flags.find(key); found != command.flags.end() && command.model.empty())
      command.model = found->second;
}

std::string flag_name(std::string_view word) {
  while (word.starts_with("-")) word.remove_prefix(1);
  std::string name(word);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::optional<ServeCommand> bare_arguments(std::string_view text) {
  ServeCommand command;
  command.words = read_words(text, LineEnd::IsSpace);
  const std::string first = command.words.empty() ? "" : command.words.front();
  if (!first.starts_with("--") || first.size() == 2 || first[2] == '-') return std::nullopt;
  command.words.insert(command.words.begin(), "...");
  read_flags(command);
  return command;
}

void give_program(ServeCommand& command, Engine server) {
  std::vector<std::string> words = read_words(program_of(server));
  if (words.size() > 2 && words[1] == "-m")
    words.erase(words.begin(), words.begin() + 2);  // command_without() adds them
  words.insert(words.end(), command.words.begin() + 1, command.words.end());
  command.server = server;
  command.words = std::move(words);
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
