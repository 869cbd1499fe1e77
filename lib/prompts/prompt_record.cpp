#include "prompts/prompt_record.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/sha256.h"
#include "prompts/prompt_pictures.h"

namespace kvcal {
namespace {

const std::vector<std::string> kKnownKeys{"text",       "messages",   "tools", "conversations", "prompt",
                                          "completion", "input_ids",  "id",    "weight",        "tags",
                                          "system",     "embeddings", "image"};

// Published sets carry keys of their own ("source", "language"); one that looks like a slip of the pen is an error. Not
// of "expect": sets have "expected" in forms of their own.
void check_keys(const Json& json) {
  for (const auto& [key, value] : json.items())
    if (std::find(kKnownKeys.begin(), kKnownKeys.end(), key) == kKnownKeys.end() &&
        !nearest_match(key, kKnownKeys).empty())
      fail_unknown("key", key, kKnownKeys);
}

void check_message(const Json& message, size_t i) {
  const std::string where = "messages[" + std::to_string(i) + "]";
  if (!message.is_object()) fail(where + " is " + std::string(message.type_name()) + ", expected an object");
  const Json* role = find_member(message, "role");
  if (!role || !role->is_string()) fail(where + " has no \"role\" text");
}

// ShareGPT names the speakers otherwise.
std::string chat_role(const std::string& from) {
  if (from == "human" || from == "user") return "user";
  if (from == "gpt" || from == "assistant" || from == "chatgpt" || from == "bing" || from == "bard") return "assistant";
  if (from == "system" || from == "tool") return from;
  if (from == "function" || from == "observation") return "tool";
  const std::vector<std::string> known{"human",  "user", "gpt",      "assistant",
                                       "system", "tool", "function", "observation"};
  fail_unknown("speaker", from, known);
}

Json from_conversations(const Json& turns, const Json* system) {
  if (!turns.is_array()) fail("conversations is " + std::string(turns.type_name()) + ", expected a list");
  Json messages = Json::array();
  if (system && system->is_string()) messages.push_back({{"role", "system"}, {"content", *system}});
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string where = "conversations[" + std::to_string(i) + "].";
    if (!turns[i].is_object()) fail(where + " is " + std::string(turns[i].type_name()) + ", expected an object");
    const bool chat_names = find_member(turns[i], "role") != nullptr;
    const std::string from = get_string(turns[i], chat_names ? "role" : "from", where);
    messages.push_back(
        {{"role", chat_role(from)}, {"content", get_string(turns[i], chat_names ? "content" : "value", where)}});
  }
  return messages;
}

std::vector<int32_t> read_ids(const Json& list) {
  if (!list.is_array()) fail("input_ids is " + std::string(list.type_name()) + ", expected a list of integers");
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const bool whole = list[i].is_number_unsigned() && list[i].get<uint64_t>() <= std::numeric_limits<int32_t>::max();
    if (!whole) fail("input_ids[" + std::to_string(i) + "] is " + quoted(list[i].dump()) + ", expected a token id");
    ids.push_back(list[i].get<int32_t>());
  }
  return ids;
}

// The one kind of content that a record has.
std::string content_key(const Json& json) {
  std::string found;
  for (const char* key : {"text", "messages", "conversations", "prompt", "input_ids"}) {
    if (!find_member(json, key)) continue;
    if (!found.empty()) fail("both \"" + found + "\" and \"" + key + "\"; a record has one of them");
    found = key;
  }
  if (found.empty()) fail("none of \"text\", \"messages\", \"conversations\", \"prompt\", \"input_ids\"");
  return found;
}

void read_chat(const Json& json, const std::string& key, PromptRecord& record) {
  record.kind = PromptKind::Chat;
  record.messages = key == "messages" ? json["messages"] : from_conversations(json[key], find_member(json, "system"));
  if (!record.messages.is_array() || record.messages.empty()) fail(key + " is empty or no list");
  for (size_t i = 0; i < record.messages.size(); ++i) check_message(record.messages[i], i);
  record.pictures = pictures_in(record.messages);
  if (const Json* tools = find_member(json, "tools")) {
    if (!tools->is_array()) fail("tools is " + std::string(tools->type_name()) + ", expected a list");
    record.tools = *tools;
  }
}

Json sources_of(const std::vector<PromptPicture>& pictures) {
  Json sources = Json::array();
  for (const PromptPicture& p : pictures) sources.push_back(p.bytes ? "sha256:" + sha256_hex(*p.bytes) : p.source);
  return sources;
}

// Keys of the content in a fixed spelling, so that equal prompts have equal hashes wherever they come from.
std::string canonical_of(const PromptRecord& r) {
  Json j = Json::object();
  if (r.kind == PromptKind::Text) j["text"] = r.text;
  if (r.kind == PromptKind::Ids) j["input_ids"] = r.input_ids;
  if (!r.embeddings_sha256.empty()) j["embeddings"] = r.embeddings_sha256;
  if (r.kind == PromptKind::Chat) {
    j["messages"] = r.messages;
    if (!r.tools.is_null()) j["tools"] = r.tools;
  } else if (!r.pictures.empty()) {
    j["image"] = sources_of(r.pictures);
  }
  return canonical_json(j);
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) fail("embeddings " + quoted(path.string()) + " is not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("embeddings " + quoted(path.string()) + " cannot be opened");
  Sha256 sha;
  std::vector<char> block(size_t{1} << 20);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0)
    sha.update(std::string_view(block.data(), static_cast<size_t>(in.gcount())));
  if (in.bad()) fail("embeddings " + quoted(path.string()) + " cannot be read");
  return sha.hex();
}

}  // namespace

void locate_files(PromptRecord& record, const std::filesystem::path& folder) {
  if (record.embeddings.empty() && record.pictures.empty()) return;
  read_pictures(record.pictures, record.messages, folder);
  if (!record.embeddings.empty()) {
    record.embeddings = folder / record.embeddings;
    record.embeddings_sha256 = sha256_of_file(record.embeddings);
  }
  record.canonical = canonical_of(record);
}

PromptRecord text_record(std::string text) {
  PromptRecord r;
  r.text = std::move(text);
  r.canonical = canonical_of(r);
  return r;
}

PromptRecord parse_prompt_record(const Json& json) {
  if (!json.is_object()) fail("record is " + std::string(json.type_name()) + ", expected an object");
  check_keys(json);
  PromptRecord r;
  const std::string key = content_key(json);
  if (find_member(json, "tools") && key != "messages" && key != "conversations") fail("tools without messages");
  if (find_member(json, "embeddings") && key != "input_ids") fail("embeddings without input_ids");
  if (const Json* image = find_member(json, "image")) {
    if (key == "messages" || key == "conversations")
      fail("image beside " + key + "; put it into the content of a message");
    if (find_member(json, "embeddings")) fail("both \"image\" and \"embeddings\"; a record has one of them");
    r.pictures = pictures_of(*image);
  }
  if (find_member(json, "completion") && key != "prompt") fail("completion without prompt");
  if (find_member(json, "system") && key != "conversations") fail("system without conversations");
  if (key == "text") {
    r.text = get_string(json, "text");
  } else if (key == "prompt" && json["prompt"].is_array()) {
    fail("prompt is a list; chats are given as \"messages\"");
  } else if (key == "prompt") {
    r.text = get_string(json, "prompt") + get_string_or(json, "completion", "");
  } else if (key == "input_ids") {
    r.kind = PromptKind::Ids;
    r.input_ids = read_ids(json["input_ids"]);
    r.embeddings = get_string_or(json, "embeddings", "");
  } else {
    read_chat(json, key, r);
  }
  r.id = get_string_or(json, "id", "");
  r.weight = get_int_or(json, "weight", 1);
  if (r.weight < 1 || r.weight > 1'000'000)
    fail("weight is " + std::to_string(r.weight) + ", expected a whole repeat count from 1 to 1000000");
  if (const Json* tags = find_member(json, "tags")) {
    if (!tags->is_array()) fail("tags is " + std::string(tags->type_name()) + ", expected a list of texts");
    for (const Json& tag : *tags) {
      if (!tag.is_string()) fail("tags holds " + quoted(tag.dump()) + ", expected texts");
      r.tags.push_back(tag.get<std::string>());
    }
  }
  if (const Json* expect = find_member(json, "expect")) r.expect.emplace(*expect);
  r.canonical = canonical_of(r);
  return r;
}

}  // namespace kvcal
