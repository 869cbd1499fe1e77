#include "doctor/launches.h"

#include <algorithm>
#include <array>

#include "base/json_text.h"
#include "base/or_nothing.h"
#include "base/word_list.h"
#include "doctor/container.h"
#include "doctor/serve_command.h"
#include "doctor/shell_words.h"
#include "doctor/yaml.h"

namespace kvcal {
namespace {

constexpr size_t kMostCommands = 64, kMostBlockBytes = size_t{64} << 10;
constexpr std::string_view kCompose = "compose file", kKubernetes = "Kubernetes manifest", kChart = "chart's values",
                           kInspected = "inspected containers", kOptions = "file of options";

/// Whether a line begins so, at the margin or as an item of a list.
bool has_line(std::string_view text, std::string_view begin) {
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1))
    if (at == 0 || text[at - 1] == '\n' || (at >= 2 && text.substr(at - 2, 2) == "- ")) return true;
  return false;
}

/// JSON's scalars as parse_yaml() gives them.
void make_texts(Json& value) {
  if (value.is_number() || value.is_boolean()) value = value.dump();
  if (!value.is_structured()) return;
  for (Json& item : value) make_texts(item);
}

/// Of JSON or YAML. JSON is read as such: libyaml takes no surrogates ("\ud83d\ude00"), and looks for templates.
std::vector<Json> documents_of(std::string_view text) {
  constexpr JsonLimits kLimits = {.max_depth = 64, .max_values = size_t{1} << 20};
  const bool begins = text.starts_with("{") || text.starts_with("[");
  Json json = begins ? or_nothing([&] { return parse_json(text, kLimits); }) : Json();
  if (!json.is_structured()) return parse_yaml(text);
  make_texts(json);
  return {std::move(json)};
}

/// The first document; null where there is none.
Json first_or_null(std::string_view text) {
  std::vector<Json> documents = or_nothing([&] { return documents_of(text); });
  return documents.empty() ? Json() : std::move(documents[0]);
}

/// What docker inspect and podman inspect print.
bool is_inspected(const Json& list) {
  if (!list.is_array() || list.empty() || !list[0].is_object()) return false;
  const Json* config = find_member(list[0], "Config");
  return config != nullptr && !text_at(*config, "Image").empty();
}

/// By its keys; "" where they say nothing. Lines of a log may be JSON, too.
std::string_view kind_by_keys(std::string_view text) {
  if (text.starts_with("[")) return is_inspected(first_or_null(text)) ? kInspected : std::string_view();
  const Json whole = text.starts_with("{") ? first_or_null(text) : Json();
  const auto has = [&](const char* key) {
    return whole.is_object() ? whole.contains(key) : has_line(text, std::string(key) + ":");
  };
  if (has("apiVersion") && has("kind")) return kKubernetes;
  return has("services") && text.find("image") != text.npos ? kCompose : std::string_view();
}

std::string_view without_margin(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r\n");
  return from == text.npos ? std::string_view() : text.substr(from);
}

/// Of a list its texts, of a text its words.
std::vector<std::string> words_at(const Json& object, std::initializer_list<const char*> keys) {
  std::vector<std::string> words;
  for (const char* key : keys) {
    if (const std::string text = text_at(object, key); !text.empty()) words = read_words(text, LineEnd::IsSpace);
    for (const Json& word : list_at(object, key))
      if (word.is_string()) words.push_back(word.get<std::string>());
  }
  return words;
}

void read_environment(const Json& object, Container& container) {
  for (const char* key : {"environment", "env", "Env"}) {
    const Json* member = find_member(object, key);
    if (!member || !member->is_structured()) continue;
    for (const auto& item : member->items()) {
      const Json& value = item.value();
      if (member->is_object() && value.is_string()) container.environment.emplace(item.key(), value.get<std::string>());
      if (member->is_array() && value.is_string()) take_assignment(value.get<std::string>(), container.environment);
      if (member->is_array() && value.is_object() && !text_at(value, "name").empty())
        container.environment.emplace(text_at(value, "name"), text_at(value, "value"));
    }
  }
}

/// "repository:tag" of a chart's image, or the text itself; "" for what is no container.
std::string image_of(const Json& object) {
  const Json* image = find_member(object, "image");
  const Json& named = image && image->is_object() ? *image : object;
  for (const char* key : {"image", "Image"})
    if (const std::string text = text_at(object, key); !text.empty() && !text.starts_with("sha256:")) return text;
  if (find_member(object, "modelFormat")) return "kserve/huggingfaceserver";
  const std::string repository = text_at(named, "repository"), tag = text_at(named, "tag");
  return repository.empty() || tag.empty() ? repository : repository + ":" + tag;
}

class Reader {
 public:
  explicit Reader(Launches& launches) : launches_(launches) {}

  void visit(const Json& value, const std::string& path, bool is_service) {
    if (!value.is_structured()) return;
    if (value.is_object())
      if (const std::string image = image_of(value); !image.empty()) take(value, image, path, is_service);
    if (launches_.gpu.empty() && value.is_object())
      for (const char* label : {"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"})
        if (launches_.gpu.empty()) launches_.gpu = text_at(value, label);
    for (const auto& item : value.items())
      if (value.is_array() || item.key() != "image")
        visit(item.value(), value.is_array() ? path : item.key(), path == "services" && launches_.kind == kCompose);
  }

 private:
  void take(const Json& object, const std::string& image, const std::string& name, bool is_service) {
    Container container;
    container.image = image;
    container.entrypoint = words_at(object, {is_service ? "entrypoint" : "command", "Entrypoint"});
    container.arguments = is_service ? words_at(object, {"command"}) : words_at(object, {"args", "extraArgs", "Cmd"});
    if (const Json& config = object_at(object, "vllmConfig"); !config.empty())
      container.arguments = words_at(config, {"extraArgs"});
    read_environment(object, container);
    container.written = name + ": " + image + " " + shell_quoted(container.entrypoint) +
                        (container.entrypoint.empty() ? "" : " ") + shell_quoted(container.arguments);
    std::optional<ServeCommand> command = command_of(container);
    if (launches_.images.size() < kMostCommands) launches_.images.push_back(image);
    if (!command || launches_.commands.size() == kMostCommands) return;
    for (const char* key : {"modelURL", "storageUri"})
      if (command->model.empty()) command->model = text_at(object, key);
    launches_.commands.push_back(std::move(*command));
  }

  Launches& launches_;
};

/// Names that few files but a server's have.
bool is_option_of_servers(std::string_view name) {
  return has_word(
      "kv-cache-dtype tensor-parallel-size max-model-len gpu-memory-utilization mem-fraction-static served-model-name",
      name);
}

/// What --config of vLLM and SGLang reads: options as one mapping. Nothing for other YAML.
std::optional<ServeCommand> options_of_file(std::string_view text) {
  const std::vector<Json> documents = documents_of(text);
  if (documents.size() != 1 || !documents[0].is_object()) return std::nullopt;
  std::vector<std::string> words;
  bool is_known = false;
  for (const auto& [key, value] : documents[0].items()) {
    is_known |= is_option_of_servers(flag_name(key));
    const std::string scalar = value.is_string() ? value.get<std::string>() : "";
    if (value.is_null() || scalar == "false" || scalar == "False") continue;
    words.push_back("--" + key);
    if (value.is_object()) words.push_back(value.dump(-1, ' ', false, Json::error_handler_t::replace));
    for (std::string& word : words_at(documents[0], {key.c_str()}))
      if (word != "true" && word != "True") words.push_back(std::move(word));
  }
  return is_known ? bare_arguments(shell_quoted(words)) : std::nullopt;
}

/// Lines as such a file has them, at its margin.
bool looks_like_options(std::string_view text) {
  size_t n_keys = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty() || std::string_view(" \t\r#-}]").find(line[0]) != line.npos) continue;
    const size_t colon = line.find(':');
    if (colon == line.npos || line.substr(0, colon).find_first_of(" \t/={") != line.npos) return false;
    ++n_keys;
  }
  return n_keys > 0;
}

std::optional<ServeCommand> options_or_none(std::string_view text) {
  if (text.size() > kMostBlockBytes || !looks_like_options(text)) return std::nullopt;
  return or_nothing([&] { return options_of_file(text); });
}

Launches read_manifest(std::string_view text) {
  Launches launches;
  if (const ContainerFile file = read_container_file(text); !file.kind.empty()) {
    launches.kind = file.kind;
    Reader(launches).visit(file.container, std::string(file.kind), false);
    return launches;
  }
  launches.kind = kind_by_keys(text);
  if (launches.kind.empty()) launches.kind = kChart;
  for (const Json& document : documents_of(text)) Reader(launches).visit(document, "", false);
  return launches;
}

/// Such texts may be logs as well.
bool starts_a_server(std::string_view text) {
  if (!has_line(text, "image:") && text.find("\n  image:") == text.npos && text.find("repository:") == text.npos)
    return false;
  return !or_nothing([&] { return read_manifest(text); }).commands.empty();
}

/// Prose in front, a block of Markdown or lines of a log: then a manifest is only shown.
bool is_report(std::string_view text) {
  for (const char* word : {"```", " INFO ", " WARNING "})
    if (text.find(word) != text.npos) return true;
  const std::string_view first = text.substr(0, text.find_first_of(" \t\r\n"));
  const bool begins = first.ends_with(":") || first.starts_with("{") || first.starts_with("[") ||
                      first.starts_with("-") || first.starts_with("#");
  return !begins && !first.starts_with("%");
}

}  // namespace

bool is_manifest(std::string_view text) {
  const std::string_view inner = without_margin(text);
  if (!read_container_file(inner).kind.empty()) return true;
  return !is_report(inner) && (!kind_by_keys(inner).empty() || starts_a_server(inner) || options_or_none(inner));
}

std::vector<ShownLaunch> launches_in_blocks(std::string_view report) {
  constexpr std::string_view kFence = "```";
  std::vector<ShownLaunch> shown;
  size_t line = 1, begin = report.npos, first = 0;
  for (size_t at = 0; at < report.size() && shown.size() < kMostCommands; ++line) {
    const size_t end = std::min(report.find('\n', at), report.size());
    if (without_margin(report.substr(at, end - at)).starts_with(kFence)) {
      const std::string_view block =
          begin == report.npos ? std::string_view() : report.substr(begin, std::min(at - begin, kMostBlockBytes));
      if (is_manifest(block) || find_python_call(block) != block.npos)
        for (ServeCommand& command : or_nothing([&] { return read_launches(block); }).commands)
          shown.push_back({std::move(command), first});
      first = line + 1;
      begin = begin == report.npos ? end + 1 : report.npos;
    }
    at = end + 1;
  }
  return shown;
}

std::optional<ServeCommand> listed_arguments(std::string_view text) {
  text = without_margin(text);
  const bool begins = text.starts_with("[") || text.starts_with("- ") || text.starts_with("args:");
  if (text.size() > kMostBlockBytes || !begins) return std::nullopt;
  const Json list = first_or_null(text);
  const std::vector<std::string> words = words_at(list.is_object() ? list : Json{{"args", list}}, {"args"});
  if (words.empty()) return std::nullopt;
  if (words[0].starts_with("--")) return bare_arguments(shell_quoted(words));
  if (!has_word("serve vllm sglang python python3 sh bash /bin/sh /bin/bash", words[0])) return std::nullopt;
  return find_serve_command((words[0] == "serve" ? "vllm " : "") + shell_quoted(words));
}

Launches read_launches(std::string_view text) {
  Launches launches;
  if (is_manifest(text)) {
    std::optional<ServeCommand> options = options_or_none(without_margin(text));
    if (!options) return read_manifest(without_margin(text));
    launches.kind = kOptions;
    launches.options_alone = true;
    launches.commands.push_back(std::move(*options));
    return launches;
  }
  std::optional<ServeCommand> command = find_serve_command(text);
  if (!command) command = listed_arguments(text);
  if (!command) command = bare_arguments(text);
  if (command) launches.commands.push_back(std::move(*command));
  return launches;
}

}  // namespace kvcal
