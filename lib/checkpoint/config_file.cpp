#include "checkpoint/config_file.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "checkpoint/quantization_config.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kConfigLimits{.max_bytes = size_t{32} << 20, .max_depth = 64, .allow_non_finite = true};
constexpr const char* kKvKeys[] = {"kv_cache_scheme",         "kv_cache_quant_algo",
                                   "kv_cache_dtype",          "kv_cache_quantized_layers",
                                   "kv_cache_schema_version", "kv_cache_deployment_supported"};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// What a folder without config.json probably is.
std::string why_no_config(const fs::path& folder) {
  if (is_file(folder / "adapter_config.json")) return "; it holds a LoRA adapter: merge it into its base model first";
  if (is_file(folder / "params.json")) return "; it is in the model maker's own format: get the Hugging Face version";
  if (const std::string id = hub_id(folder); !id.empty())
    return "; it is a folder of the Hub's cache without a snapshot: 'hf download " + printable(id, 100) + "' gets one";
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".gguf") return std::string(kNoGguf);
    if (is_file(entry.path() / "config.json")) return "; did you mean " + quoted(entry.path().string()) + "?";
  }
  return "; is it a model folder?";
}

fs::path find_config(const fs::path& given, fs::path& folder) {
  if (is_file(given)) {
    expect_kind(FileKind::Config, "a model folder", given);
    if (given.extension() != ".json")
      fail(quoted(given.string()) + ": is not a model folder or config.json" +
           std::string(given.extension() == ".gguf" ? kNoGguf : ""));
    folder = given.has_parent_path() ? given.parent_path() : fs::path(".");
    return given;
  }
  if (!is_folder(given)) {
    std::error_code error;
    const bool exists = fs::exists(given, error);
    fail(quoted(given.string()) + ": " +
         (error    ? errno_text(error.value())
          : exists ? "is neither a folder nor a file"
                   : "no such model folder"));
  }
  folder = given;
  if (is_file(given / "config.json")) return given / "config.json";
  std::error_code error;
  if (!fs::exists(given / "config.json", error) && error)
    fail(quoted(given.string()) + ": cannot be read: " + errno_text(error.value()));
  if (const std::optional<fs::path> snapshot = hub_snapshot(given)) {
    folder = *snapshot;
    if (is_file(folder / "config.json")) return folder / "config.json";
  }
  if (kind_of_file(folder) == FileKind::RunState)
    fail(other_kind(folder.string(), FileKind::RunState, "a model folder"));
  fail(quoted(folder.string()) + ": has no config.json" + why_no_config(folder));
}

void remove_kv_keys(Json& object) {
  for (const char* key : kKvKeys) object.erase(key);
}

void remove_kv_parts(Json& config) {
  if (!config.is_object()) return;
  remove_kv_keys(config);
  for (const char* key : kQuantizationKeys) {
    if (!config.contains(key)) continue;
    Json& quantization = config[key];
    if (quantization.is_object()) {
      remove_kv_keys(quantization);
      if (quantization.contains("quantization") && quantization["quantization"].is_object())
        remove_kv_keys(quantization["quantization"]);
    }
    if (!quantizes_weights(quantization)) config.erase(key);
  }
  for (const char* key : kNestedConfigs)
    if (config.contains(key)) remove_kv_parts(config[key]);
}

bool any_group_has_weights(const Json* groups) {
  if (!groups) return false;
  if (!groups->is_object()) return !groups->empty();
  for (const auto& group : groups->items())
    if (!group.value().is_object() || find_member(group.value(), "weights")) return true;
  return false;
}

bool is_empty(const Json* value) { return !value || ((value->is_object() || value->is_array()) && value->empty()); }

}  // namespace

std::string hub_id(const fs::path& folder) {
  constexpr std::string_view kPrefix = "models--";
  std::string name = folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
  const size_t dashes = name.find("--", kPrefix.size());
  if (!name.starts_with(kPrefix) || dashes == name.npos) return "";
  return name.replace(dashes, 2, "/").substr(kPrefix.size());
}

// The Hub's cache keeps revisions in snapshots/<hash> and the hash of a branch in refs/<branch>.
std::optional<fs::path> hub_snapshot(const fs::path& folder) {
  if (!is_folder(folder / "snapshots")) return std::nullopt;
  if (is_file(folder / "refs" / "main")) {
    std::string hash = read_file(folder / "refs" / "main", 4096);
    while (!hash.empty() && (hash.back() == '\n' || hash.back() == ' ')) hash.pop_back();
    const bool plain = std::all_of(hash.begin(), hash.end(), [](unsigned char c) { return std::isalnum(c); });
    if (plain && !hash.empty() && is_folder(folder / "snapshots" / hash)) return folder / "snapshots" / hash;
  }
  std::vector<fs::path> snapshots;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "snapshots", ignored)) snapshots.push_back(entry.path());
  if (snapshots.empty()) return std::nullopt;
  if (snapshots.size() == 1) return snapshots[0];
  fail(quoted(folder.string()) + ": is a cache folder with " + std::to_string(snapshots.size()) +
       " snapshots and no usable refs/main; name one of the folders in snapshots/");
}

ConfigFile read_config(const fs::path& folder_or_file) {
  ConfigFile result;
  result.path = find_config(folder_or_file, result.folder);
  result.config = read_json_file(result.path, kConfigLimits);
  if (!result.config.is_object()) fail(quoted(result.path.string()) + ": is JSON but not an object");
  const fs::path generation = result.folder / "generation_config.json";
  if (is_file(generation)) result.generation_config = read_json_file(generation, kConfigLimits);
  return result;
}

Json with_image_token(Json config, const fs::path& folder) {
  const Json* classes = find_member(config, "architectures");
  const fs::path file = folder / "tokenizer_config.json";
  if (!classes || *classes != Json::array({"InternVLChatModel"}) || config.contains("image_token_id")) return config;
  if (!is_file(file)) return config;
  const Json tokenizer = read_json_file(file, kConfigLimits);
  const Json* tokens = find_member(tokenizer, "added_tokens_decoder");
  if (!tokens || !tokens->is_object()) return config;
  for (const auto& token : tokens->items()) {
    const Json* content = token.value().is_object() ? find_member(token.value(), "content") : nullptr;
    int64_t id = -1;
    const std::string& key = token.key();
    if (content && *content == "<IMG_CONTEXT>" &&
        std::from_chars(key.data(), key.data() + key.size(), id).ptr == key.data() + key.size())
      config["image_token_id"] = id;
  }
  return config;
}

bool quantizes_weights(const Json& quantization_config) {
  if (quantization_config.is_null()) return false;
  if (!quantization_config.is_object()) return true;
  const Json* nested = find_member(quantization_config, "quantization");
  const Json& quantization = nested && nested->is_object() ? *nested : quantization_config;
  const Json* said = find_member(quantization_config, "quant_method");
  const std::string method = said && said->is_string() ? said->get<std::string>() : "";
  // Files without a method are told apart by what they hold.
  const Json* groups = find_member(quantization, "config_groups");
  const bool modelopt = method == "modelopt" || (method.empty() && (nested || quantization.contains("quant_algo")));
  const bool compressed = method == "compressed-tensors" || (method.empty() && !modelopt && groups);
  if (modelopt) {
    const Json* algorithm = find_member(quantization, "quant_algo");
    const bool none = !algorithm || *algorithm == "NO_QUANT" || *algorithm == "";
    return !none || !is_empty(groups) || !is_empty(find_member(quantization, "quantized_layers"));
  }
  if (compressed) return any_group_has_weights(groups);
  for (const auto& member : quantization.items()) {
    const bool about_kv = std::find(std::begin(kKvKeys), std::end(kKvKeys), member.key()) != std::end(kKvKeys);
    if (!about_kv && !member.value().is_null()) return true;
  }
  return false;
}

std::string config_sha256(const Json& config) {
  Json identity = config;
  remove_kv_parts(identity);
  return sha256_hex(canonical_json(identity));
}

}  // namespace kvcal
