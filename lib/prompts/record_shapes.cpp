#include "prompts/record_shapes.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/letter_case.h"

namespace kvcal {
namespace {

using Keys = std::vector<const char*>;

enum class Said {
  Turns,
  FirstOfTurns,  // or a list of texts, all of the user, whose answers belong between them: the first alone is a prompt
  InTurn,        // or a list of texts of user and assistant in turn
  Text,          // of the user
};

struct Shape {
  const char* key;
  Said said = Said::Turns;
  bool sure = false;  // the key alone says that it is one
  Keys more = {};     // a further line of what the user says
  Keys reply = {};    // turns or a text of the assistant behind it
  Keys system = {"system"};
  Keys needs = {};    // one of them beside it
  Keys without = {};  // none of them beside it: the question would be half of one
};

// In the order in which they are looked for. The first five are chats whatever stands beside them.
const std::vector<Shape>& shapes() {
  static const Keys kHalves{"choices", "options", "context", "passage", "article"};
  static const std::vector<Shape> table{
      {.key = "messages", .sure = true},
      {.key = "conversations", .sure = true},
      {.key = "conversation", .sure = true},
      {.key = "prompt", .reply = {"completion", "chosen"}},
      {.key = "chosen"},
      {.key = "instruction",
       .said = Said::Text,
       .sure = true,
       .more = {"input", "context"},
       .reply = {"output", "response"}},
      {.key = "items"},
      {.key = "data", .said = Said::InTurn},
      {.key = "turns", .said = Said::FirstOfTurns},
      {.key = "contents", .system = {"systemInstruction", "system_instruction"}},
      {.key = "input", .reply = {"output"}, .system = {"instructions"}},
      {.key = "input",
       .said = Said::Text,
       .reply = {"output"},
       .system = {"instructions"},
       .needs = {"model", "instructions"}},
      {.key = "question",
       .said = Said::Text,
       .reply = {"response", "answer", "chosen"},
       .system = {"system_prompt", "system"},
       .needs = {"response", "answer", "chosen"},
       .without = kHalves},
      {.key = "query", .said = Said::Text, .reply = {"response"}, .needs = {"response"}, .without = kHalves},
      {.key = "problem", .said = Said::Text, .reply = {"solution"}, .needs = {"solution"}, .without = kHalves},
  };
  return table;
}
constexpr size_t kWhateverBeside = 5;

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

[[noreturn]] void fail_speaker(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [speaker, role] : roles()) known.push_back(speaker);
  fail_unknown("speaker", name, known);
}

const Json* first_of(const Json& object, const Keys& keys) {
  for (const char* key : keys)
    if (const Json* member = find_member(object, key)) return member;
  return nullptr;
}

void append_text(Json& messages, const std::string& role, const std::string& text) {
  messages.push_back({{"role", role}, {"content", text}});
}

/// Of our own form, whose turns are messages with whatever keys a template knows.
bool has_messages(const std::string& list) {
  return list == "messages" || list == "prompt" || list == "completion" || list == "chosen";
}

// A "role" may be one that only some templates know, unless it is a speaker's name; in "from" stands a speaker.
std::string role_of(const Json& turn, const std::string& list, const std::string& where) {
  const bool role = find_member(turn, "role") != nullptr;
  const std::string name = get_string(turn, role ? "role" : "from", where);
  const auto known = roles().find(lower_case(name));
  static const std::vector<std::string> kOwnOfTemplates{"model", "function", "bot", "ai", "function_call"};
  const bool own = known == roles().end() || std::ranges::find(kOwnOfTemplates, name) != kOwnOfTemplates.end();
  if (role && own && has_messages(list)) return name;
  if (known == roles().end()) fail_speaker(name);
  return known->second;
}

bool is_named_turn(const std::string& key, const Json& said) {
  return roles().contains(lower_case(key)) && said.is_string();
}

bool is_turn(const Json& turn) {
  if (!turn.is_object()) return false;
  if (first_of(turn, {"role", "from", "parts"})) return true;
  return std::ranges::any_of(turn.items(), [](const auto& m) { return is_named_turn(m.key(), m.value()); });
}

// {"user": "...", "assistant": "..."} and the like: each member a turn.
void append_named(const Json& turn, const std::string& where, Json& messages) {
  const size_t before = messages.size();
  for (const auto& [key, value] : turn.items())
    if (is_named_turn(key, value)) append_text(messages, roles().at(lower_case(key)), value.get<std::string>());
  if (messages.size() == before) fail(where + " has no \"role\" text");
}

// Sets keep much beside what was said; these are for the template.
bool is_for_templates(const std::string& key) {
  static const std::vector<std::string> kKeys{"name",      "tool_calls", "tool_call_id", "reasoning_content",
                                              "reasoning", "thinking"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

// Gemini's parts have no type.
Json content_of_parts(const Json& parts, const std::string& where) {
  if (!parts.is_array()) fail(where + " is " + std::string(parts.type_name()) + ", expected a list");
  Json content = Json::array();
  for (const Json& part : parts) {
    const bool typed = part.is_object() && find_member(part, "type");
    const Json* text = part.is_object() ? find_member(part, "text") : nullptr;
    if (!typed && !(text && text->is_string())) fail(where + " holds something else than texts");
    content.push_back(typed ? part : Json{{"type", "text"}, {"text", *text}});
  }
  return content.size() == 1 && content[0]["type"] == "text" ? content[0]["text"] : content;
}

void append_turn(const Json& turn, const std::string& list, size_t i, Json& messages) {
  const std::string where = list + "[" + std::to_string(i) + "]";
  if (!turn.is_object()) fail(where + " is " + std::string(turn.type_name()) + ", expected an object");
  const Json* parts = find_member(turn, "parts");
  const bool has_role = first_of(turn, {"role", "from"});
  if (!has_role && !parts) return append_named(turn, where, messages);
  const std::string role = has_role ? role_of(turn, list, where + ".") : "user";
  const Json* content = first_of(turn, {"content", "value", "text"});
  if (content && !content->is_string() && !content->is_array())
    fail(where + ".content is " + std::string(content->type_name()) + ", expected a text or a list of parts");
  if (has_messages(list) && find_member(turn, "role") && (content ? find_member(turn, "content") != nullptr : !parts)) {
    messages.push_back(turn);
    messages.back()["role"] = role;
    return;
  }
  const Json said = content ? *content : parts ? content_of_parts(*parts, where + ".parts") : Json();
  if (said.is_null() && !find_member(turn, "tool_calls")) get_string(turn, "value", where + ".");
  Json message = {{"role", role}, {"content", said}};
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

// Some tables of sets have room for texts only. Python's own notation of a list is no JSON.
Json list_in(const std::string& text, const char* key) {
  return while_doing(std::string(key) + " is a text, which is read as JSON",
                     [&] { return parse_json(text, {.keep_large_integers = true}); });
}

Json history_of(const Json& record) {
  Json messages = Json::array();
  const Json* history = find_member(record, "history");
  if (!history) return messages;
  if (!history->is_array()) fail("history is " + std::string(history->type_name()) + ", expected a list");
  for (const Json& pair : *history) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string())
      fail("history holds " + quoted(pair.dump()) + ", expected pairs of texts");
    append_text(messages, "user", pair[0].get<std::string>());
    append_text(messages, "assistant", pair[1].get<std::string>());
  }
  return messages;
}

Json asked_in(const Shape& shape, const Json& record) {
  Json messages = history_of(record);
  std::string text = get_string(record, shape.key);
  for (const char* key : shape.more)
    if (find_member(record, key)) {
      const std::string more = get_string(record, key);
      text += more.empty() ? "" : "\n" + more;
      break;
    }
  append_text(messages, "user", text);
  return messages;
}

Json texts_in(const Shape& shape, const Json& texts) {
  Json messages = Json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].is_string())
      fail(std::string(shape.key) + " holds a text and " + texts[i].type_name() + ", expected texts");
    append_text(messages, i % 2 == 0 ? "user" : "assistant", texts[i].get<std::string>());
    if (shape.said == Said::FirstOfTurns) break;
  }
  return messages;
}

Json said_in(const Shape& shape, const Json& record) {
  const Json& said = record[shape.key];
  if (shape.said == Said::Text) return asked_in(shape, record);
  if (said.is_string() && said != "") return turns_of(list_in(said.get<std::string>(), shape.key), shape.key);
  return said.is_array() && !said.empty() && said[0].is_string() && !shape.sure ? texts_in(shape, said)
                                                                                : turns_of(said, shape.key);
}

void append_reply(const Shape& shape, const Json& record, Json& messages) {
  for (const char* key : shape.reply) {
    const Json* reply = find_member(record, key);
    if (!reply) continue;
    if (reply->is_array()) {
      for (Json& message : turns_of(*reply, key)) messages.push_back(std::move(message));
    } else if (const std::string text = get_string(record, key); !text.empty()) {
      append_text(messages, "assistant", text);
    }
    return;
  }
}

// What the system says; null for nothing. An empty text is nothing: sets have the key in every record.
Json system_in(const Shape& shape, const Json& record) {
  const Json* system = first_of(record, shape.system);
  if (!system || *system == "") return nullptr;
  if (system->is_object() && find_member(*system, "parts"))
    return content_of_parts((*system)["parts"], "the system's parts");
  const bool parts = system->is_array() && !system->empty() && system->front().is_object();
  return system->is_string() || parts ? *system : Json();
}

bool fits(const Shape& shape, const Json& record) {
  const Json* said = find_member(record, shape.key);
  if (!said || shape.sure) return said;
  if (!shape.needs.empty() && !first_of(record, shape.needs)) return false;
  if (first_of(record, shape.without)) return false;
  if (shape.said == Said::Text) return said->is_string();
  if (!said->is_array() || said->empty()) return false;
  return said->front().is_string() ? shape.said != Said::Turns : is_turn(said->front());
}

const Shape* shape_of(const Json& record) {
  const bool plain = first_of(record, {"text", "prompt", "input_ids"});
  for (size_t i = 0; i < (plain ? kWhateverBeside : shapes().size()); ++i)
    if (fits(shapes()[i], record)) return &shapes()[i];
  return nullptr;
}

bool has_content(const Json& record) {
  return first_of(record, {"text", "prompt", "input_ids", "inputs"}) || shape_of(record);
}

void check_only(const Shape& found, const Json& record) {
  for (const Shape& other : shapes())
    if (&other != &found && found.sure && other.sure && other.said == found.said && find_member(record, other.key))
      fail("both \"" + std::string(found.key) + "\" and \"" + other.key + "\"; a record has one of them");
}

}  // namespace

const Json& request_in(const Json& record) {
  if (!record.is_object() || has_content(record)) return record;
  for (const char* key : {"body", "request", "params"})
    if (const Json* inner = find_member(record, key); inner && inner->is_object())
      if (const Json& request = request_in(*inner); has_content(request)) return request;
  return record;
}

std::optional<Json> chat_in(const Json& record) {
  const Shape* shape = shape_of(record);
  if (!shape) return std::nullopt;
  check_only(*shape, record);
  Json messages = said_in(*shape, record);
  append_reply(*shape, record, messages);
  Json system = system_in(*shape, record);
  if (!system.is_null() && messages.front()["role"] != "system")
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", std::move(system)}});
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
