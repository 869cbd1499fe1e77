#include "prompts/chat_template_files.h"

#include <algorithm>

#include "base/json.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLargestFile = size_t{4} << 20;

bool is_there(const fs::path& p) {
  std::error_code ignored;
  return fs::exists(p, ignored);
}

std::vector<ChatTemplateText> from_jinja_files(const fs::path& folder) {
  std::vector<ChatTemplateText> found;
  const auto add = [&](const std::string& variant, const fs::path& file) {
    found.push_back({variant, file.string(), read_file(file, kLargestFile)});
  };
  if (const fs::path main = folder / "chat_template.jinja"; is_there(main)) add("default", main);
  const fs::path more = folder / "additional_chat_templates";
  if (!is_there(more)) return found;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(more))
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) add(file.stem().string(), file);
  return found;
}

// The value of "chat_template": a text, or a list of {"name", "template"}, or an object of name to text.
std::vector<ChatTemplateText> from_json(const Json& value, const std::string& file) {
  std::vector<ChatTemplateText> found;
  if (value.is_string()) {
    found.push_back({"default", file + ": chat_template", value.get<std::string>()});
  } else if (value.is_array() || value.is_object()) {
    for (const auto& [key, entry] : value.items()) {
      const bool pair = entry.is_object();
      const std::string name = pair ? get_string(entry, "name", "chat_template.") : key;
      if (!pair && !(value.is_object() && entry.is_string()))
        fail(file + ": chat_template." + key + " is " + std::string(entry.type_name()) + ", expected a text");
      found.push_back({name, file + ": chat_template " + quoted(name),
                       pair ? get_string(entry, "template", "chat_template.") : entry.get<std::string>()});
    }
  } else if (!value.is_null()) {
    fail(file + ": chat_template is " + std::string(value.type_name()) + ", expected a text or a list of named texts");
  }
  return found;
}

}  // namespace

std::vector<ChatTemplateText> find_chat_templates(const fs::path& folder) {
  std::vector<ChatTemplateText> texts = from_jinja_files(folder);
  JsonLimits limits;
  limits.allow_non_finite = true;
  for (const char* name : {"tokenizer_config.json", "chat_template.json", "processor_config.json"}) {
    const fs::path file = folder / name;
    if (!texts.empty() || !is_there(file)) continue;
    const Json j = read_json_file(file, limits);
    if (const Json* value = j.is_object() ? find_member(j, "chat_template") : nullptr)
      texts = from_json(*value, file.string());
  }
  return texts;
}

}  // namespace kvcal
