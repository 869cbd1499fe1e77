#include "doctor/input_kind.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/or_nothing.h"
#include "doctor/launches.h"
#include "doctor/log_reader.h"

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

// "[2026-02-16 10:00:30] ...", "2026-02-16 10:00:30 ...", "(EngineCore pid=7) ...".
bool begins_as_of_log(std::string_view line) {
  const auto digit = [&](size_t i) { return i < line.size() && line[i] >= '0' && line[i] <= '9'; };
  const size_t at = line.starts_with("[") ? 1 : 0;
  const bool date =
      digit(at) && digit(at + 1) && digit(at + 2) && digit(at + 3) && line.substr(at + 4).starts_with("-");
  return (date && digit(at + 5)) || (line.starts_with("(") && line.substr(0, 40).find(" pid=") != line.npos);
}

// Or something that servers say of themselves: a command is followed by none of it.
bool has_lines_of_log(std::string_view text) {
  for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1))) {
    if (begins_as_of_log(rest)) return true;
    if (rest.find('\n') == rest.npos) break;
  }
  Facts said;
  LogReader reader("", said);
  reader.feed(text);
  reader.finish();
  const bool of_form = said.gpu || said.version;
  return of_form || !said.lines.empty() || !said.logged_dtype.empty() || !said.backend.empty() || said.has_started;
}

// What SGLang prints where it starts: a call that nobody writes like that.
bool is_printed(std::string_view line) { return line.find("server_args=ServerArgs(") != line.npos; }

bool is_command(std::string_view text) {
  const std::string_view command = first_command(text);
  const std::string_view line = command.substr(0, command.find('\n'));
  for (const std::string_view word : {" INFO ", " WARNING ", "Error:"})
    if (text.find(word) != text.npos) return false;
  const bool starts = find_serve_command(line) || bare_arguments(command) || listed_arguments(command);
  return starts && !is_printed(line) && !begins_as_of_log(line) && !has_lines_of_log(command.substr(line.size()));
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
