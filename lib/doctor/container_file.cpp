#include "doctor/container_file.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/letter_case.h"
#include "base/or_nothing.h"
#include "doctor/shell_words.h"

namespace kvcal {
namespace {

struct Setting {
  std::string name, value;  // "FROM", "vllm/vllm-openai:v0.20.0"; "[Container]", ""
};

/// Lines with their continuations, without comments, cut behind the first of these characters.
std::vector<Setting> settings_of(std::string_view text, std::string_view cuts) {
  std::vector<Setting> all;
  std::string line;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    part = part.substr(0, part.find_last_not_of(" \t\r") + 1);
    part.remove_prefix(std::min(part.size(), part.find_first_not_of(" \t")));
    if (part.starts_with("#") || part.starts_with(";")) continue;
    const bool goes_on = part.ends_with("\\");
    line += part.substr(0, part.size() - (goes_on ? 1 : 0));
    if (goes_on) continue;
    const size_t cut = std::min(line.find_first_of(cuts), line.size());
    const size_t value = std::min(line.find_first_not_of(std::string(cuts) + " ", cut), line.size());
    if (!line.empty()) all.push_back({line.substr(0, cut), line.substr(value)});
    line.clear();
  }
  return all;
}

void take_variables(const std::string& text, Json& variables) {
  std::map<std::string, std::string> read;
  for (const std::string& word : read_words(text)) take_assignment(word, read);
  // ENV's old form: a name, and the rest of the line.
  if (const size_t space = text.find(' '); read.empty() && space != text.npos)
    read.emplace(text.substr(0, space), text.substr(space + 1));
  for (const auto& [name, value] : read) variables[name] = value;
}

/// As a list where it is one, else a line for a shell.
Json words_or_script(const std::string& text) {
  Json list = or_nothing([&] { return parse_json(text); });
  return list.is_array() ? list : Json{"/bin/sh", "-c", text};
}

/// "vllm/vllm-openai:${TAG}" with what ARG gives where nothing else is said.
std::string expanded(std::string text, const Json& arguments) {
  for (const auto& [name, value] : arguments.items())
    for (const std::string& written : {"${" + name + "}", "$" + name})
      if (const size_t at = text.find(written); at != text.npos)
        text.replace(at, written.size(), value.get<std::string>());
  return text;
}

/// Of the last stage.
Json read_dockerfile(const std::vector<Setting>& settings) {
  Json container = Json::object(), arguments = Json::object(), stages = Json::object();
  std::string stage;
  for (const auto& [name, value] : settings) {
    const std::string instruction = upper_case(name);
    if (instruction == "ARG") take_variables(value, arguments);
    if (instruction == "FROM") {
      std::vector<std::string> words = read_words(value);
      while (!words.empty() && words[0].starts_with("--")) words.erase(words.begin());
      if (words.empty()) continue;
      stages[stage] = container;
      container = stages.contains(words[0]) ? stages[words[0]] : Json{{"image", expanded(words[0], arguments)}};
      stage = words.size() == 3 ? words[2] : "";
    }
    if (instruction == "ENV") take_variables(value, container["env"]);
    if (instruction == "ENTRYPOINT") container["command"] = words_or_script(value);
    if (instruction == "CMD") container["args"] = words_or_script(value);
  }
  return container;
}

Json read_quadlet(const std::vector<Setting>& settings) {
  Json container = Json::object();
  bool inside = false;
  for (const auto& [name, value] : settings) {
    if (name.starts_with("[")) inside = name == "[Container]";
    if (!inside) continue;
    if (name == "Image") container["image"] = value;
    if (name == "Environment") take_variables(value, container["env"]);
    if (name == "Entrypoint") container["command"] = value;
    if (name == "Exec") container["args"] = value;
  }
  return container;
}

}  // namespace

ContainerFile read_container_file(std::string_view text) {
  constexpr size_t kMostBytes = size_t{64} << 10;
  if (text.size() > kMostBytes) return {};
  if (text.find("[Container]") != text.npos && text.find("\nImage=") != text.npos)
    return {"Quadlet unit", read_quadlet(settings_of(text, "="))};
  const std::vector<Setting> settings = settings_of(text, " \t");
  const std::string first = settings.empty() ? "" : upper_case(settings[0].name);
  if (first != "FROM" && first != "ARG") return {};
  Json container = read_dockerfile(settings);
  const bool starts = container.contains("command") || container.contains("args");
  return starts && container.contains("image") ? ContainerFile{"Dockerfile", std::move(container)} : ContainerFile{};
}

}  // namespace kvcal
