#include "tokenizer/tokenizer_config.h"

#include <algorithm>

namespace kvcal {
namespace {

namespace fs = std::filesystem;

// Names of tokens stand under keys of their own ("image_token"), in "extra_special_tokens" or in
// "model_specific_special_tokens", which newer versions of the reference write: it then does not read the latter beside
// the others.
void drop_overruled_names(Json& config) {
  bool overruled = false;
  for (const auto& [key, value] : config.items()) {
    const bool token = value.is_string() || value.is_object();
    overruled = overruled ||
                (key.ends_with("_token") &&
                 std::count(std::begin(kStandardTokenNames), std::end(kStandardTokenNames), key) == 0 && token) ||
                (key == "extra_special_tokens" && value.is_object() && !value.empty());
  }
  if (overruled) config.erase("model_specific_special_tokens");
}

// Older folders keep the special tokens in special_tokens_map.json, which then counts more than tokenizer_config.json,
// and other added tokens in added_tokens.json. Neither is read where the configuration has "added_tokens_decoder".
void take_older_files(const fs::path& folder, Json& config) {
  if (find_member(config, "added_tokens_decoder")) return;
  std::error_code ignored;
  if (const fs::path map = folder / "special_tokens_map.json"; fs::exists(map, ignored)) {
    const Json j = read_json_file(map);
    if (!j.is_object()) fail(map.string() + ": expected an object");
    for (const auto& [key, value] : j.items()) config[key] = value;
  }
  if (const fs::path added = folder / "added_tokens.json"; fs::exists(added, ignored)) {
    const Json j = read_json_file(added);
    if (!j.is_object()) fail(added.string() + ": expected an object of token: id");
    Json decoder = Json::object();
    for (const auto& [token, id] : j.items()) {
      if (!id.is_number_unsigned()) fail(added.string() + ": id of " + quoted(token) + " is not a token id");
      decoder[id.dump()] = Json{{"content", token}, {"special", false}, {"normalized", true}};
    }
    config["added_tokens_decoder"] = decoder;
  }
}

}  // namespace

Json read_tokenizer_config(const fs::path& folder) {
  Json config = Json::object();
  std::error_code ignored;
  if (const fs::path file = folder / "tokenizer_config.json"; fs::exists(file, ignored)) {
    JsonLimits limits;
    limits.allow_non_finite = true;
    config = read_json_file(file, limits);
    if (!config.is_object()) fail(file.string() + ": expected an object");
  }
  drop_overruled_names(config);
  take_older_files(folder, config);
  return config;
}

std::optional<AddedToken> configured_token(const Json& j) {
  AddedToken t;
  if (j.is_string()) {
    t.content = j.get<std::string>();
    t.normalized = false;
  } else if (j.is_object() && j.contains("content") && j["content"].is_string()) {
    t = read_added_token(j);
  } else {
    return std::nullopt;
  }
  t.special = true;
  return t;
}

std::vector<AddedToken> tokens_of_decoder(const Json& table) {
  if (!table.is_object()) return {};
  std::vector<std::pair<int64_t, AddedToken>> numbered;
  for (const auto& [key, value] : table.items()) {
    const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) fail("added_tokens_decoder has key " + quoted(key) + ", expected a token id");
    numbered.emplace_back(std::stoll(key), read_added_token(value));
  }
  std::stable_sort(numbered.begin(), numbered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<AddedToken> tokens;
  for (auto& [id, token] : numbered) tokens.push_back(std::move(token));
  return tokens;
}

}  // namespace kvcal
