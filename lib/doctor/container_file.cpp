// Files that describe one container and are no YAML: Dockerfiles, and units of Podman's Quadlet. What $NAME and
// ${NAME:-word} stand for in them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/letter_case.h"
#include "base/or_nothing.h"
#include "doctor/container.h"
#include "doctor/shell_words.h"

namespace kvcal {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

/// What becomes of spaces in a value outside quotes: a shell splits there, Docker does not.
enum class Spaces : uint8_t { SplitWords, KeepWord };

/// Expands one file. What all values add to its texts is limited: each of them may name the one before twice.
class VariableExpander {
 public:
  /// $NAME, ${NAME}, and with a word in place of a value -, :-, + and :+. Quotes and backslashes stay for read_words(),
  /// which makes one word of a value in quotes. As it is written stays what names no variable, or one that is not
  /// known: the base image, docker build or docker run may set it. `quote`: the one that the text stands in; 0: none.
  std::string expanded(std::string_view text, const Variables& variables, Spaces spaces, char quote = 0);

 private:
  size_t bytes_left_ = size_t{256} << 10;
};

constexpr size_t kMostReferenceBytes = 1024;

std::string_view name_at_front(std::string_view text) {
  const auto is_of_name = [](char c) { return c == '_' || is_letter_or_digit(c); };
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return "";
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, is_of_name) - text.begin()));
}

/// "${A:-${B}}" at the front; "" where it does not end.
std::string_view in_braces(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < std::min(text.size(), kMostReferenceBytes); ++i) {
    if (text.substr(i).starts_with("${")) ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(0, i + 1);
  }
  return "";
}

/// Text that read_words() takes for this value.
std::string escaped(std::string_view value, char quote, Spaces spaces) {
  const std::string special = quote == '"' ? "\"\\" : spaces == Spaces::KeepWord ? "\"'\\;|&<>`# \t" : "\"'\\;|&<>`#";
  std::string text;
  for (const char c : value) text += special.find(c) == special.npos ? std::string(1, c) : std::string{'\\', c};
  return text;
}

/// Of a reference at the front of a text.
struct Reference {
  std::string_view written;  // "": none is there
  std::string_view name;
  std::string_view modifier;  // ":-word"; "" for the value itself
};

Reference reference_at_front(std::string_view text) {
  if (!text.starts_with("${")) {
    const std::string_view name = name_at_front(text.substr(1));
    return {name.empty() ? "" : text.substr(0, 1 + name.size()), name, ""};
  }
  const std::string_view written = in_braces(text);
  if (written.empty()) return {};
  const std::string_view inner = written.substr(2, written.size() - 3), name = name_at_front(inner);
  return {written, name, inner.substr(name.size())};
}

/// Text to put in place of a reference: of a value, or the word of a modifier, which has quotes of its own. Nothing
/// where that is not known.
struct Replacement {
  std::optional<std::string_view> value, word;
};

Replacement replacement_of(const Reference& reference, const Variables& variables) {
  const auto found = variables.find(reference.name);
  const bool known = found != variables.end();
  std::string_view modifier = reference.modifier;
  const bool empty_is_unset = modifier.starts_with(":");
  if (empty_is_unset) modifier.remove_prefix(1);
  const bool set = known && !(empty_is_unset && found->second.empty());
  const bool otherwise = modifier.starts_with("-");
  if (set && (reference.modifier.empty() || otherwise || modifier.starts_with("?"))) return {found->second, {}};
  if (otherwise || (set && modifier.starts_with("+"))) return {{}, modifier.substr(1)};
  return {};
}

std::string VariableExpander::expanded(std::string_view text, const Variables& variables, Spaces spaces, char quote) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      if (text[i + 1] != '$') out += c;
      out += text[++i];
      continue;
    }
    if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    const Reference reference = c == '$' && quote != '\'' ? reference_at_front(text.substr(i)) : Reference();
    if (reference.written.empty()) {
      out += c;
      continue;
    }
    const Replacement by = replacement_of(reference, variables);
    std::string put(reference.written);
    if (by.value && by.value->size() <= bytes_left_) put = escaped(*by.value, quote, spaces);
    if (by.word) put = expanded(*by.word, variables, spaces, quote);
    if (by.value) bytes_left_ -= std::min(bytes_left_, by.value->size());
    out += put;
    i += reference.written.size() - 1;
  }
  return out;
}

struct Setting {
  std::string name, value;  // "FROM", "vllm/vllm-openai:v0.20.0"; "[Container]", ""
};

enum class Format : uint8_t { Dockerfile, Unit };

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

/// The text behind a here-document that ends at this line; the text itself where none does.
std::string_view behind_body(std::string_view text, std::string_view end, bool tabs_in_front) {
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = take_line(rest);
    if (line.ends_with("\r")) line.remove_suffix(1);
    if (tabs_in_front) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
    if (line == end) return rest;
  }
  return text;
}

/// "<<EOF", "<<-'EOF'", "3<<EOF" of RUN, COPY and ADD, outside quotes: their bodies are no instructions.
std::string_view behind_bodies(std::string_view value, std::string_view text) {
  char quote = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (quote != 0 ? c == quote : c == '"' || c == '\'') quote = quote != 0 ? 0 : c;
    if (quote != 0 || !value.substr(i).starts_with("<<")) continue;
    const bool tabs = value.substr(i + 2).starts_with("-");
    std::string_view end = value.substr(i + 2 + (tabs ? 1 : 0));
    end = end.substr(0, end.find_first_of(" \t;|&>"));
    i += 1 + end.size();
    if (end.size() > 2 && (end[0] == '"' || end[0] == '\'')) end = end.substr(1, end.size() - 2);
    if (!end.empty() && end.find('<') == end.npos) text = behind_body(text, end, tabs);
  }
  return text;
}

Setting setting_of(std::string_view line, Format format) {
  const size_t cut = std::min(line.find_first_of(format == Format::Unit ? "=" : " \t"), line.size());
  return {std::string(trimmed(line.substr(0, cut))), std::string(trimmed(line.substr(std::min(cut + 1, line.size()))))};
}

/// Lines with their continuations, without comments. In a Dockerfile empty lines do not end a continued one; in a unit
/// they do, and a space takes the backslash's place.
std::vector<Setting> settings_of(std::string_view text, Format format) {
  std::vector<Setting> all;
  std::string line;
  bool continued = false;
  while (!text.empty()) {
    const std::string_view part = take_line(text), inner = trimmed(part);
    if (inner.starts_with("#") || (format == Format::Unit && inner.starts_with(";"))) continue;
    if (continued && inner.empty() && format == Format::Dockerfile) continue;
    continued = inner.ends_with("\\");
    const size_t end = continued ? part.rfind('\\') : part.size();
    line += std::string(part.substr(0, end)) + (continued && format == Format::Unit ? " " : "");
    if (continued && !text.empty()) continue;
    if (const std::string_view whole = trimmed(line); !whole.empty()) all.push_back(setting_of(whole, format));
    line.clear();
    const std::string instruction = all.empty() ? "" : upper_case(all.back().name);
    if (format == Format::Dockerfile && (instruction == "RUN" || instruction == "COPY" || instruction == "ADD"))
      text = behind_bodies(all.back().value, text);
  }
  return all;
}

struct Assignment {
  std::string name;
  std::optional<std::string> value;  // none of a word that is a name alone
};

/// Of ENV, ARG and Environment=.
std::vector<Assignment> assignments_of(const std::string& text) {
  std::vector<Assignment> all;
  for (const std::string& word : read_words(text)) {
    const size_t equals = word.find('=');
    if (equals == 0) continue;
    all.push_back({word.substr(0, equals), {}});
    if (equals != word.npos) all.back().value = word.substr(equals + 1);
  }
  return all;
}

struct Stage {
  std::string name, image;
  const Stage* base = nullptr;           // that it begins as; else the image
  std::vector<const Setting*> settings;  // of its own
};

/// What Docker's reference says of the instructions that matter here. Of ARG the defaults count.
class Dockerfile {
 public:
  /// Of the last stage.
  Json read(const std::vector<Setting>& settings) {
    std::deque<Stage> stages;
    for (const Setting& setting : settings) {
      const std::string instruction = upper_case(setting.name);
      if (instruction == "FROM")
        begin(setting.value, stages);
      else if (!stages.empty())
        stages.back().settings.push_back(&setting);
      else if (instruction == "ARG")
        take_arguments(setting.value, of_file_);
    }
    return stages.empty() ? Json::object() : container_of(stages.back());
  }

 private:
  void begin(const std::string& value, std::deque<Stage>& stages) {
    std::vector<std::string> words = read_words(expander_.expanded(value, of_file_, Spaces::KeepWord));
    while (!words.empty() && words[0].starts_with("--")) words.erase(words.begin());
    if (words.empty()) return;
    const auto base = std::find_if(stages.rbegin(), stages.rend(),
                                   [&](const Stage& s) { return same_but_for_case(s.name, words[0]); });
    const bool named = words.size() == 3 && upper_case(words[1]) == "AS";
    stages.push_back({named ? words[2] : "", words[0], base == stages.rend() ? nullptr : &*base, {}});
  }

  Json container_of(const Stage& last) {
    std::vector<const Stage*> line;
    for (const Stage* stage = &last; stage != nullptr; stage = stage->base) line.push_back(stage);
    Json container = {{"image", line.back()->image}};
    for (auto stage = line.rbegin(); stage != line.rend(); ++stage)
      for (const Setting* setting : (*stage)->settings) take(*setting, container);
    for (const char* key : {"command", "args"})
      if (container.contains(key)) expand_script(container[key]);
    if (!environment_.empty()) container["env"] = environment_;
    return container;
  }

  void take(const Setting& setting, Json& container) {
    const std::string instruction = upper_case(setting.name);
    if (instruction == "ARG") take_arguments(setting.value, of_stage_);
    if (instruction == "ENV") take_environment(setting.value);
    if (instruction == "ENTRYPOINT") container["command"] = words_or_script(setting.value);
    if (instruction == "CMD") container["args"] = words_or_script(setting.value);
  }

  /// A name alone means the file's argument. ENV goes before ARG.
  void take_arguments(const std::string& text, Variables& arguments) {
    for (const auto& [name, value] : assignments_of(expander_.expanded(text, arguments, Spaces::KeepWord))) {
      const auto of_file = of_file_.find(name);
      if (environment_.contains(name) || (!value && of_file == of_file_.end())) continue;
      arguments[name] = value ? *value : of_file->second;
    }
  }

  void take_environment(const std::string& text) {
    std::vector<Assignment> assigned = assignments_of(expander_.expanded(text, of_stage_, Spaces::KeepWord));
    // The old form: a name, and the rest of the line.
    if (assigned.size() > 1 && !assigned[0].value) {
      const std::string rest = text.substr(text.find_first_of(" \t"));
      assigned = {{assigned[0].name, ""}};
      for (const std::string& word : read_words(expander_.expanded(rest, of_stage_, Spaces::KeepWord)))
        *assigned[0].value += (assigned[0].value->empty() ? "" : " ") + word;
    }
    for (const auto& [name, value] : assigned) environment_[name] = of_stage_[name] = value.value_or("");
  }

  /// As a list where it is one, else a line for a shell.
  static Json words_or_script(const std::string& text) {
    Json list = or_nothing([&] { return parse_json(text); });
    return list.is_array() ? list : Json{"/bin/sh", "-c", text};
  }

  /// A shell knows what ENV says at the end, and nothing of ARG.
  void expand_script(Json& words) {
    std::vector<std::string> texts;
    for (const Json& word : words) texts.push_back(word.is_string() ? word.get<std::string>() : "");
    const std::string script = script_of(texts);
    for (Json& word : words)
      if (!script.empty() && word == script) word = expander_.expanded(script, environment_, Spaces::SplitWords);
  }

  Variables of_file_;      // of ARG before the first FROM
  Variables of_stage_;     // of ARG and ENV
  Variables environment_;  // of ENV
  VariableExpander expander_;
};

Json read_quadlet(const std::vector<Setting>& settings) {
  Json container = Json::object();
  bool inside = false;
  for (const auto& [name, value] : settings) {
    if (name.starts_with("[")) inside = name == "[Container]";
    if (!inside) continue;
    if (name == "Image") container["image"] = value;
    if (name == "Environment")
      for (const auto& [variable, text] : assignments_of(value)) container["env"][variable] = text.value_or("");
    if (name == "Entrypoint") container["command"] = value;
    if (name == "Exec") container["args"] = value;
  }
  return container;
}

}  // namespace

ContainerFile read_container_file(std::string_view text) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  if (text.size() > kMostBytes) return {};
  if (text.find("[Container]") != text.npos) {
    Json unit = read_quadlet(settings_of(text, Format::Unit));
    if (unit.contains("image")) return {"Quadlet unit", std::move(unit)};
  }
  const std::vector<Setting> settings = settings_of(text, Format::Dockerfile);
  const std::string first = settings.empty() ? "" : upper_case(settings[0].name);
  if (first != "FROM" && first != "ARG") return {};
  Json container = Dockerfile().read(settings);
  const bool starts = container.contains("command") || container.contains("args");
  return starts && container.contains("image") ? ContainerFile{"Dockerfile", std::move(container)} : ContainerFile{};
}

}  // namespace kvcal
