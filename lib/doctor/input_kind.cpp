#include "doctor/input_kind.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/or_nothing.h"
#include "doctor/launches.h"

namespace kvcal {
namespace {

constexpr size_t kMostCommandBytes = size_t{64} << 10;

InputKind kind_of_json(std::string_view text) {
  // Logs may begin with a brace, and hold one JSON object per line.
  const Json json = or_nothing([&] { return parse_json(text, {.allow_non_finite = true}); });
  const auto has = [&](const char* key) { return json.contains(key); };
  if (has("kv_cache") || has("scaling_factor") || (has("format") && has("layers"))) return InputKind::ScaleFile;
  if (has("choices")) return InputKind::Output;
  if (has("target_modules")) return InputKind::Adapter;
  return has("model_type") || has("architectures") ? InputKind::Config : InputKind::Log;
}

// Skips what scripts have in front: comments, settings, exports, empty lines.
std::string_view first_command(std::string_view text) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t\r")));
    bool skip = line.empty();
    for (const std::string_view start : {"#", "set ", "export ", "cd ", "source ", "$"})
      skip |= line.starts_with(start);
    if (!skip) return text.substr(static_cast<size_t>(line.data() - text.data()));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return {};
}

bool is_command(std::string_view text) {
  const std::string_view command = first_command(text);
  const size_t line = std::min(command.find('\n'), command.size());
  const size_t logs = std::min({text.find(" INFO "), text.find(" WARNING "), text.find("Error:")});
  const bool starts = find_serve_command(command.substr(0, line)) || bare_arguments(command);
  return starts && logs == std::string_view::npos;
}

// A script that starts an engine itself.
bool is_python(std::string_view text) {
  for (const std::string_view package : {"vllm", "sglang", "tensorrt_llm"})
    for (const std::string_view import : {"import ", "from "}) {
      const size_t at = text.find(std::string(import) + std::string(package));
      if (at != text.npos && (at == 0 || text[at - 1] == '\n')) return find_serve_command(text).has_value();
    }
  return false;
}

}  // namespace

std::string_view name_of(InputKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"log", "command", "config", "scale file", "output", "adapter"};
  return kNames.at(static_cast<size_t>(kind));
}

InputKind kind_of_input(std::string_view head, bool whole) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return InputKind::Log;
  if (whole && is_manifest(head)) return InputKind::Command;
  if (head[first] == '{' && whole) return kind_of_json(head);
  if (whole && head.size() <= kMostCommandBytes && is_python(head)) return InputKind::Command;
  return whole && head.size() <= kMostCommandBytes && is_command(head) ? InputKind::Command : InputKind::Log;
}

}  // namespace kvcal
