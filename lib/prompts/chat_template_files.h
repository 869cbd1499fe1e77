// Where a checkpoint folder keeps its chat templates.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kvcal {

struct ChatTemplateText {
  std::string variant;  // "default", "tool_use", ...
  std::string name;     // file, and which of its templates: for messages
  std::string text;
};

/// Those that ChatTemplate::load() names, or none. Throws Error naming the file that cannot be read, is no JSON, or has
/// something else than texts where they belong.
std::vector<ChatTemplateText> find_chat_templates(const std::filesystem::path& folder);

}  // namespace kvcal
