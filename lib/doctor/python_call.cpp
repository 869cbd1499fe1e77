// Engines that Python starts: LLM(model="X", kv_cache_dtype="fp8"), sgl.Engine(model_path="X").
#include <algorithm>
#include <array>
#include <cctype>

#include "doctor/launch_names.h"
#include "doctor/serve_command.h"
#include "doctor/shell_words.h"

namespace kvcal {
namespace {

constexpr size_t kMostBytes = size_t{64} << 10;

struct Call {
  std::string_view name;
  Engine server;
};
// sgl.Engine( ends with the second name.
constexpr std::array kCalls = {Call{"LLM(", Engine::Vllm}, Call{"Engine(", Engine::Sglang},
                               Call{"EngineArgs(", Engine::Vllm}, Call{"ServerArgs(", Engine::Sglang}};

bool is_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

const Call* call_at(std::string_view text, size_t at) {
  for (const Call& call : kCalls) {
    if (!text.substr(at).starts_with(call.name)) continue;
    const std::string_view before = text.substr(0, at);
    const bool whole = before.empty() || !is_name(before.back()) || before.ends_with("Async");
    // Other libraries have engines, too.
    const bool of_sglang = before.ends_with("sgl.") || before.ends_with("sglang.");
    if (whole && (call.name != "Engine(" || of_sglang)) return &call;
  }
  return nullptr;
}

/// Behind an argument that begins at `at`: its comma, or the parenthesis of the call.
size_t end_of_argument(std::string_view text, size_t at) {
  int depth = 0;
  char quote = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quote != 0) {
      if (c == '\\')
        ++at;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      at = std::min(text.find('\n', at), text.size() - 1);
    } else if (c == '(' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}') {
      if (--depth < 0) return at;
    } else if (c == ',' && depth == 0) {
      return at;
    }
  }
  return text.size();
}

/// Of a string its text; of a number or a collection what is written. Nothing for a variable, None and False.
std::optional<std::string> literal(std::string_view value) {
  if (value.empty() || value == "None" || value == "False") return std::nullopt;
  if (value == "True") return "";
  const char c = value.front();
  if (c == '"' || c == '\'') {
    size_t end = value.find(c, 1);
    while (end != value.npos && value[end - 1] == '\\') end = value.find(c, end + 1);
    // "a" + "b" is no literal.
    return end + 1 == value.size() ? std::optional(std::string(value.substr(1, end - 1))) : std::nullopt;
  }
  const bool written = c == '{' || c == '[' || c == '-' || (c >= '0' && c <= '9');
  return written ? std::optional(std::string(value)) : std::nullopt;
}

/// Of a variable that the text gives a literal, the last one: model = "org/name".
std::optional<std::string> assigned(std::string_view text, std::string_view name) {
  std::optional<std::string> value;
  if (name.empty() || !std::ranges::all_of(name, is_name)) return value;
  while (!text.empty()) {
    std::string_view line = trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    if (!line.starts_with(name)) continue;
    line = trimmed(line.substr(name.size()));
    if (!line.starts_with('=') || line.starts_with("==")) continue;
    line = trimmed(line.substr(1));
    if (line.starts_with('"') || line.starts_with('\'')) value = literal(line);
  }
  return value;
}

constexpr std::string_view kSomeModel = "MODEL";

/// `before`: the text in front of the call. Of a variable that it does not tell the model is kSomeModel.
void take_argument(std::string_view argument, bool is_first, std::string_view before, ServeCommand& command) {
  const bool is_value = argument.starts_with('"') || argument.starts_with('\'');
  const size_t equals = is_value ? argument.npos : argument.find('=');
  const std::string_view written = trimmed(equals == argument.npos ? argument : argument.substr(equals + 1));
  const std::string name(trimmed(argument.substr(0, std::min(equals, argument.size()))));
  const bool is_model = name == "model" || name == "model_path" || (is_first && equals == argument.npos);
  std::optional<std::string> value = literal(written);
  if (!value && name == "kv_cache_dtype") value = assigned(before, written);
  if (!value && is_model && !written.empty()) value = assigned(before, written).value_or(std::string(kSomeModel));
  if (!value) return;
  if (is_model && command.model.empty()) command.model = *value;
  if (equals == argument.npos) {
    if (is_model) command.words.push_back(*value);
    return;
  }
  command.words.push_back("--" + flag_name(name));
  if (!value->empty()) command.words.push_back(*value);
}

}  // namespace

size_t find_python_call(std::string_view text) {
  for (size_t at = text.find('('); at != text.npos; at = text.find('(', at + 1))
    for (const Call& call : kCalls) {
      const size_t begin = at + 1 - std::min(at + 1, call.name.size());
      if (call_at(text, begin) == &call) return begin;
    }
  return text.npos;
}

std::optional<ServeCommand> read_python_call(std::string_view text, size_t at) {
  const Call& call = *call_at(text, at);
  const std::string_view inside = text.substr(at + call.name.size(), kMostBytes);
  ServeCommand command;
  command.server = call.server;
  command.written = text.substr(at);
  command.words = {std::string(call.server == Engine::Vllm ? "vllm" : "sglang"), "serve"};
  size_t from = 0;
  for (bool is_first = true;; is_first = false) {
    const size_t end = end_of_argument(inside, from);
    take_argument(trimmed(inside.substr(from, end - from)), is_first, text.substr(0, at), command);
    if (end == inside.size() || inside[end] != ',') break;
    from = end + 1;
  }
  read_flags(command);
  const bool has_options = std::ranges::any_of(
      command.flags, [](const auto& flag) { return flag.first != "model" && flag.first != "model-path"; });
  // Prose has "LLM(s)".
  if (command.model.empty() || (command.model == kSomeModel && !has_options)) return std::nullopt;
  if (text.find("tensorrt_llm") != text.npos) {
    command.server = Engine::Unknown;
    command.refusal = refusal_of("LLM(...)", "TensorRT-LLM");
  }
  return command;
}

}  // namespace kvcal
