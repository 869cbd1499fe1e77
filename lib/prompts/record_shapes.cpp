#include "prompts/record_shapes.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace kvcal {
namespace {

constexpr std::array kTurnLists{"messages", "conversations", "conversation"};

// Speakers by the names of ShareGPT and its like, as templates call them.
const std::map<std::string, std::string>& roles() {
  static const std::map<std::string, std::string> known{
      {"user", "user"},        {"human", "user"},          {"prompter", "user"},  {"assistant", "assistant"},
      {"gpt", "assistant"},    {"chatgpt", "assistant"},   {"bing", "assistant"}, {"bard", "assistant"},
      {"model", "assistant"},  {"bot", "assistant"},       {"ai", "assistant"},   {"function_call", "assistant"},
      {"system", "system"},    {"developer", "developer"}, {"tool", "tool"},      {"function", "tool"},
      {"observation", "tool"}, {"tool_response", "tool"},
  };
  return known;
}

std::string lower(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

[[noreturn]] void fail_speaker(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [speaker, role] : roles()) known.push_back(speaker);
  fail_unknown("speaker", name, known);
}

const Json* first_of(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const Json* member = find_member(object, key)) return member;
  return nullptr;
}

std::string text_of(const Json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (find_member(object, key)) return get_string(object, key);
  return "";
}

/// Of our own form, whose turns are messages with whatever keys a template knows.
bool has_messages(const std::string& list) { return list == "messages" || list == "prompt" || list == "completion"; }

// A "role" may be one that only some templates know, unless it is a speaker's name; in "from" stands a speaker.
std::string role_of(const Json& turn, const std::string& list, const std::string& where) {
  const bool role = find_member(turn, "role") != nullptr;
  const std::string name = get_string(turn, role ? "role" : "from", where);
  const auto known = roles().find(lower(name));
  static const std::vector<std::string> kOwnOfTemplates{"model", "function", "bot", "ai", "function_call"};
  const bool own = known == roles().end() || std::ranges::find(kOwnOfTemplates, name) != kOwnOfTemplates.end();
  if (role && own && has_messages(list)) return name;
  if (known == roles().end()) fail_speaker(name);
  return known->second;
}

// {"user": "...", "assistant": "..."} and the like: each member a turn.
void append_named(const Json& turn, const std::string& where, Json& messages) {
  const size_t before = messages.size();
  for (const auto& [key, value] : turn.items())
    if (const auto known = roles().find(lower(key)); known != roles().end() && value.is_string())
      messages.push_back({{"role", known->second}, {"content", value}});
  if (messages.size() == before) fail(where + " has no \"role\" text");
}

// Sets keep much beside what was said; these are for the template.
bool is_for_templates(const std::string& key) {
  static const std::vector<std::string> kKeys{"name",      "tool_calls", "tool_call_id", "reasoning_content",
                                              "reasoning", "thinking"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

void append_turn(const Json& turn, const std::string& list, size_t i, Json& messages) {
  const std::string where = list + "[" + std::to_string(i) + "]";
  if (!turn.is_object()) fail(where + " is " + std::string(turn.type_name()) + ", expected an object");
  if (!first_of(turn, {"role", "from"})) return append_named(turn, where, messages);
  const std::string role = role_of(turn, list, where + ".");
  const Json* content = first_of(turn, {"content", "value", "text"});
  if (content && !content->is_string() && !content->is_array())
    fail(where + ".content is " + std::string(content->type_name()) + ", expected a text or a list of parts");
  if (has_messages(list) && find_member(turn, "role") && (!content || find_member(turn, "content"))) {
    messages.push_back(turn);
    messages.back()["role"] = role;
    return;
  }
  if (!content && !find_member(turn, "tool_calls")) get_string(turn, "value", where + ".");
  Json message = {{"role", role}, {"content", content ? *content : Json()}};
  for (const auto& [key, value] : turn.items())
    if (is_for_templates(key)) message[key] = value;
  messages.push_back(std::move(message));
}

Json turns_of(const Json& turns, const std::string& list) {
  if (!turns.is_array() || turns.empty()) fail(list + " is empty or no list");
  Json messages = Json::array();
  for (size_t i = 0; i < turns.size(); ++i) append_turn(turns[i], list, i, messages);
  return messages;
}

void append_text(Json& messages, const char* role, const std::string& text) {
  messages.push_back({{"role", role}, {"content", text}});
}

Json instruction_chat(const Json& record) {
  Json messages = Json::array();
  if (const Json* history = find_member(record, "history")) {
    if (!history->is_array()) fail("history is " + std::string(history->type_name()) + ", expected a list");
    for (const Json& pair : *history) {
      if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
        fail("history holds " + quoted(pair.dump()) + ", expected pairs of texts");
      append_text(messages, "user", pair[0].get<std::string>());
      append_text(messages, "assistant", pair[1].get<std::string>());
    }
  }
  const std::string input = text_of(record, {"input", "context"}), output = text_of(record, {"output", "response"});
  append_text(messages, "user", get_string(record, "instruction") + (input.empty() ? "" : "\n" + input));
  if (!output.empty()) append_text(messages, "assistant", output);
  return messages;
}

std::optional<Json> turns_in(const Json& record) {
  const char* found = nullptr;
  for (const char* key : kTurnLists) {
    if (!find_member(record, key)) continue;
    if (found) fail("both \"" + std::string(found) + "\" and \"" + key + "\"; a record has one of them");
    found = key;
  }
  if (found) return turns_of(record[found], found);
  const Json* prompt = find_member(record, "prompt");
  if (prompt && prompt->is_array()) {
    if (prompt->empty() || !(*prompt)[0].is_object())
      fail("prompt is a list of something else than messages; give one text, or \"messages\", or \"input_ids\"");
    Json messages = turns_of(*prompt, "prompt");
    if (const Json* reply = find_member(record, "completion"))
      for (Json& message : turns_of(*reply, "completion")) messages.push_back(std::move(message));
    return messages;
  }
  if (find_member(record, "instruction") && !first_of(record, {"text", "prompt", "input_ids"}))
    return instruction_chat(record);
  return std::nullopt;
}

}  // namespace

const Json& request_in(const Json& record) {
  if (!record.is_object() ||
      first_of(record, {"text", "prompt", "input_ids", "instruction", "messages", "conversations", "conversation"}))
    return record;
  for (const char* key : {"body", "request"})
    if (const Json* inner = find_member(record, key); inner && inner->is_object()) return request_in(*inner);
  return record;
}

std::optional<Json> chat_in(const Json& record) {
  std::optional<Json> messages = turns_in(record);
  if (!messages) return messages;
  // An empty one is none: sets have the key in every record.
  const Json* system = find_member(record, "system");
  if (system && system->is_string() && *system != "" && messages->front()["role"] != "system") {
    Json with_system = Json::array({{{"role", "system"}, {"content", *system}}});
    for (Json& message : *messages) with_system.push_back(std::move(message));
    return with_system;
  }
  return messages;
}

Json tools_in(const Json& record) {
  const Json* tools = find_member(record, "tools");
  if (!tools || *tools == "") return nullptr;
  const Json list =
      tools->is_string()
          ? while_doing("tools",
                        [&] { return parse_json(tools->get_ref<const std::string&>(), {.keep_large_integers = true}); })
          : *tools;
  if (!list.is_array()) fail("tools is " + std::string(list.type_name()) + ", expected a list");
  return list;
}

}  // namespace kvcal
