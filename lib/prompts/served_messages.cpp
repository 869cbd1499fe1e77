#include "prompts/served_messages.h"

#include <algorithm>
#include <array>
#include <optional>

namespace kvcal {
namespace {

/// What a part says, if it is one of text.
std::optional<std::string> text_of(const Json& part) {
  if (part.is_string()) return part.get<std::string>();
  const Json* type = part.is_object() ? find_member(part, "type") : nullptr;
  if (!type) return std::nullopt;
  for (const char* name : {"text", "input_text", "output_text", "refusal", "thinking"}) {
    if (*type != name) continue;
    const Json* text = find_member(part, part.contains(name) ? name : "text");
    return text && text->is_string() ? text->get<std::string>() : "";
  }
  return std::nullopt;
}

/// The parts as one text; nothing where one is something else.
std::optional<std::string> joined(const Json& parts) {
  std::string all;
  for (const Json& part : parts) {
    const std::optional<std::string> text = text_of(part);
    if (!text) return std::nullopt;
    // Servers leave empty parts out.
    if (!text->empty()) all += (all.empty() ? "" : "\n") + *text;
  }
  return all;
}

[[noreturn]] void fail_part(const Json& parts) {
  for (const Json& part : parts)
    if (!text_of(part)) {
      const Json* type = part.is_object() ? find_member(part, "type") : nullptr;
      fail("a part of the content is " +
           (type && type->is_string() ? "of type " + quoted(type->get<std::string>()) : std::string(part.type_name())) +
           ", but the chat template takes texts only");
    }
  fail("the content is a list, but the chat template takes texts only");
}

bool has_picture(const Json& parts) {
  return std::ranges::any_of(
      parts, [](const Json& part) { return part.is_object() && part.contains("type") && part["type"] == "image"; });
}

Json served_content(const Json& content, bool of_tool, ContentForm form) {
  if (content.is_string())
    return form == ContentForm::Parts && !of_tool ? Json::array({{{"type", "text"}, {"text", content}}}) : content;
  if (!content.is_array()) return content;
  if (form == ContentForm::Text || of_tool) {
    if (std::optional<std::string> text = joined(content)) return *text;
    // Pictures are put in front by what reads them, and templates that know no loop may know them all the same.
    if (form == ContentForm::Text && !has_picture(content)) fail_part(content);
    return content;
  }
  Json parts = Json::array();
  for (const Json& part : content) {
    const bool plain = part.is_object() && part.contains("type") && part["type"] == "text";
    const std::optional<std::string> text = plain ? std::nullopt : text_of(part);
    parts.push_back(text ? Json{{"type", "text"}, {"text", *text}} : part);
  }
  return parts;
}

Json served_arguments(const Json& arguments) {
  if (arguments.is_null() || arguments == "") return Json::object();
  if (arguments.is_object()) return arguments;
  if (!arguments.is_string()) fail("is " + std::string(arguments.type_name()) + ", expected an object");
  Json parsed = parse_json(arguments.get_ref<const std::string&>(), {.keep_large_integers = true});
  if (!parsed.is_object()) fail("is the JSON of " + std::string(parsed.type_name()) + ", expected that of an object");
  return parsed;
}

void serve_tool_calls(Json& message) {
  Json& calls = message["tool_calls"];
  if (!calls.is_array()) return;
  if (calls.empty()) {
    message.erase("tool_calls");
    return;
  }
  for (size_t i = 0; i < calls.size(); ++i)
    if (Json& call = calls[i]; call.is_object() && call.contains("function") && call["function"].is_object())
      while_doing("tool_calls[" + std::to_string(i) + "].function.arguments", [&] {
        Json& function = call["function"];
        function["arguments"] = served_arguments(function.value("arguments", Json()));
      });
}

/// How Python begins to print each object in `value`: "{'key': ".
void collect_beginnings(const Json& value, std::vector<std::string>& out) {
  if (value.is_object() && !value.empty()) out.push_back("{'" + value.begin().key() + "': ");
  if (value.is_structured())
    for (const Json& member : value) collect_beginnings(member, out);
}

bool is_written(const Json& value, const std::string& text) {
  if (value.is_string()) return value.get_ref<const std::string&>().find(text) != std::string::npos;
  return value.is_structured() && std::ranges::any_of(value, [&](const Json& v) { return is_written(v, text); });
}

}  // namespace

Json served_messages(const Json& messages, ContentForm form) {
  Json served = messages;
  for (size_t i = 0; i < served.size(); ++i)
    while_doing("messages[" + std::to_string(i) + "]", [&] {
      Json& message = served[i];
      const Json* role = find_member(message, "role");
      if (message.contains("content"))
        message["content"] = served_content(message["content"], role && *role == "tool", form);
      if (role && *role == "assistant" && find_member(message, "tool_calls")) serve_tool_calls(message);
    });
  return served;
}

bool has_python_notation(const ChatInput& input, const char* member, const std::string& rendered) {
  if (rendered.find("{'") == std::string::npos) return false;
  std::vector<std::string> beginnings;
  for (const Json& message : input.messages)
    if (const Json* value = find_member(message, member)) collect_beginnings(*value, beginnings);
  std::ranges::sort(beginnings);
  beginnings.erase(std::unique(beginnings.begin(), beginnings.end()), beginnings.end());
  constexpr size_t kMost = 100;
  beginnings.resize(std::min(beginnings.size(), kMost));
  return std::ranges::any_of(beginnings, [&](const std::string& beginning) {
    return rendered.find(beginning) != std::string::npos && !is_written(input.messages, beginning) &&
           !is_written(input.tools, beginning);
  });
}

}  // namespace kvcal
