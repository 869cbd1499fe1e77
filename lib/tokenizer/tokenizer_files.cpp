// Which files of a checkpoint folder make a tokenizer.

#include <algorithm>

#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) fail(folder.string() + ": no such folder, expected a checkpoint");
  const auto has = [&](const char* name) { return fs::exists(folder / name, ignored); };
  std::string found;
  if (has("tokenizer.model")) found = "tokenizer.model (SentencePiece)";
  if (has("tiktoken.model")) found = "tiktoken.model";
  if (has("vocab.json") && has("merges.txt")) found = "vocab.json and merges.txt";
  if (has("tekken.json")) found = "tekken.json (Mistral)";
  std::string message = folder.string() + ": no tokenizer.json";
  if (!found.empty())
    message += "; found " + found +
               ", which only holds the vocabulary. Convert it once with transformers: "
               "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes tokenizer.json";
  else
    message += "; is the download complete? Prompts given as input_ids need no tokenizer";
  fail(message);
}

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

Tokenizer Tokenizer::load(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) refuse_folder(folder);
  Json config = Json::object();
  const fs::path config_file = folder / "tokenizer_config.json";
  if (fs::exists(config_file, ignored)) {
    JsonLimits limits;
    limits.allow_non_finite = true;
    config = read_json_file(config_file, limits);
    if (!config.is_object()) fail(config_file.string() + ": expected an object");
  }
  drop_overruled_names(config);
  take_older_files(folder, config);
  const Json json = read_json_file(file);
  return while_doing(file.string(), [&] { return Tokenizer(json, config); });
}

}  // namespace kvcal
