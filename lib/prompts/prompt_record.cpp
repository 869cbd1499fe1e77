#include "prompts/prompt_record.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/sha256.h"
#include "prompts/foreign_formats.h"
#include "prompts/prompt_pictures.h"
#include "prompts/record_shapes.h"

namespace kvcal {
namespace {

const std::vector<std::string> kTextKeys{"text", "prompt", "instruction"};
const std::vector<std::string> kListKeys{"messages", "conversations", "conversation", "input_ids"};

std::vector<std::string> content_keys() {
  std::vector<std::string> keys = kTextKeys;
  keys.insert(keys.end(), kListKeys.begin(), kListKeys.end());
  return keys;
}

// Published sets carry keys of their own ("source", "prompt_id"), so that what looks like a slip of the pen is one only
// where nothing else was found, and what stands there is what would stand under the right name.
[[noreturn]] void fail_without_content(const Json& json) {
  refuse_foreign_record(json);
  for (const auto& [key, value] : json.items()) {
    const std::vector<std::string>& near = value.is_array() ? kListKeys : kTextKeys;
    if ((value.is_array() || value.is_string()) && !nearest_match(key, near).empty())
      fail_unknown("key", key, content_keys());
  }
  std::string names;
  for (const std::string& key : content_keys()) names += (names.empty() ? "none of \"" : ", \"") + key + "\"";
  fail(names + " or what else is read as a prompt" + how_to_name_text(json));
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

// The one kind of content of a record that is no chat.
std::string content_key(const Json& json) {
  std::string found;
  for (const char* key : {"text", "prompt", "input_ids"}) {
    if (!find_member(json, key)) continue;
    if (!found.empty()) fail("both \"" + found + "\" and \"" + key + "\"; a record has one of them");
    found = key;
  }
  if (found.empty() && find_member(json, "inputs")) return "inputs";  // of requests to TGI
  if (found.empty()) fail_without_content(json);
  return found;
}

void read_chat(const Json& json, Json messages, PromptRecord& record) {
  if (find_member(json, "image")) fail("image beside messages; put it into the content of a message");
  if (find_member(json, "input_ids")) fail("both messages and \"input_ids\"; a record has one of them");
  record.kind = PromptKind::Chat;
  record.messages = std::move(messages);
  record.pictures = pictures_in(record.messages);
  record.tools = tools_in(json);
}

void read_plain(const Json& json, PromptRecord& record) {
  const std::string key = content_key(json);
  if (key == "prompt" && json["prompt"].is_array())
    fail("prompt is a list of something else than messages; give one text, or \"messages\", or \"input_ids\"");
  if (find_member(json, "tools")) fail("tools without messages");
  if (find_member(json, "system")) fail("system without messages");
  if (find_member(json, "embeddings") && key != "input_ids") fail("embeddings without input_ids");
  if (find_member(json, "completion") && key != "prompt") fail("completion without prompt");
  if (const Json* image = find_member(json, "image")) {
    if (find_member(json, "embeddings")) fail("both \"image\" and \"embeddings\"; a record has one of them");
    record.pictures = pictures_of(*image);
  }
  if (key == "text" || key == "inputs") record.text = get_string(json, key.c_str());
  if (key == "prompt") record.text = get_string(json, "prompt") + get_string_or(json, "completion", "");
  if (key != "input_ids") return;
  record.kind = PromptKind::Ids;
  record.input_ids = read_ids(json["input_ids"]);
  record.embeddings = get_string_or(json, "embeddings", "");
}

// Sets number their records, too.
std::string read_id(const Json& json) {
  const Json* id = find_member(json, "id");
  if (!id) return "";
  if (id->is_binary()) return large_integer_digits(*id);
  return id->is_number_integer() ? id->dump() : get_string(json, "id");
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

PromptRecord parse_prompt_record(const Json& record) {
  if (record.is_string()) return text_record(record.get<std::string>());
  if (!record.is_object()) fail("record is " + std::string(record.type_name()) + ", expected an object or a text");
  const Json& json = request_in(record);
  PromptRecord r;
  if (std::optional<Json> chat = chat_in(json))
    read_chat(json, std::move(*chat), r);
  else
    read_plain(json, r);
  r.id = read_id(record);
  r.weight = get_int_or(record, "weight", 1);
  if (r.weight < 1 || r.weight > 1'000'000)
    fail("weight is " + std::to_string(r.weight) + ", expected a whole repeat count from 1 to 1000000");
  if (const Json* tags = find_member(record, "tags")) {
    if (!tags->is_array()) fail("tags is " + std::string(tags->type_name()) + ", expected a list of texts");
    for (const Json& tag : *tags) {
      if (!tag.is_string()) fail("tags holds " + quoted(tag.dump()) + ", expected texts");
      r.tags.push_back(tag.get<std::string>());
    }
  }
  if (const Json* expect = find_member(record, "expect")) r.expect.emplace(*expect);
  r.canonical = canonical_of(r);
  return r;
}

}  // namespace kvcal
