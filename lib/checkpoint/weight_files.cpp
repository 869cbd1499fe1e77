#include "checkpoint/weight_files.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/config_file.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexSuffix = ".safetensors.index.json";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::vector<std::string> file_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) fail(quoted(folder.string()) + ": cannot list the folder: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// What completes a folder of which something is missing. A snapshot of the Hub's cache tells which model it is of.
std::string completing(const fs::path& folder) {
  const std::string question = "was the download complete?", id = hub_id(folder.parent_path().parent_path());
  if (folder.parent_path().filename() != "snapshots" || id.empty()) return question;
  return question + " 'hf download " + printable(id, 100) + "' completes it";
}

/// Weights in formats that are not read here, in the order of how likely each is what the user has.
std::string advice_for(const fs::path& folder, const std::vector<std::string>& names) {
  const auto any = [&](auto matches) { return std::any_of(names.begin(), names.end(), matches); };
  const auto starts = [](std::string_view prefix) {
    return [prefix](const std::string& name) { return name.rfind(prefix, 0) == 0; };
  };
  const auto ends = [](std::string_view suffix) {
    return [suffix](const std::string& name) { return std::string_view(name).ends_with(suffix); };
  };
  if (any(starts("consolidated")))
    return "has only consolidated.* weights, the model maker's own format; get the Hugging Face version "
           "(model*.safetensors)";
  if (any(starts("pytorch_model")) || any(ends(".bin")))
    return "has only PyTorch pickle weights (.bin), which can run code when read; convert them: "
           "AutoModelForCausalLM.from_pretrained(folder, dtype='auto').save_pretrained(new_folder)";
  if (any(ends(".gguf"))) return "has only GGUF weights, which are already quantized; get the original checkpoint";
  if (any(starts("adapter_model")))
    return "holds only a LoRA adapter; merge it into its base model first (peft: merge_and_unload)";
  if (any(ends(".pth")) || any(ends(".pt"))) return "has only .pt/.pth weights; convert them to safetensors first";
  if (any(ends(".h5")) || any(ends(".msgpack")))
    return "has only TensorFlow or Flax weights; get the version with model*.safetensors";
  return "has no weights (*.safetensors); " + completing(folder);
}

/// A file of the index: inside the folder by its name. What a symbolic link of that name points to is the owner's
/// business, as in the Hub's cache, whose snapshots link to ../../blobs.
void check_shard_name(const std::string& name) {
  const fs::path path(name);
  const bool escapes = path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  if (name.empty() || name.find('\0') != name.npos || escapes)
    fail("names the file " + quoted(name) + ", which is not inside the folder");
  if (path.extension() != ".safetensors") fail("names the file " + quoted(name) + ", expected *.safetensors");
}

WeightFiles read_index(const fs::path& folder, const fs::path& path) {
  const JsonLimits limits{.max_bytes = size_t{512} << 20, .max_depth = 16};
  const Json json = read_json_file(path, limits);
  return while_doing(quoted(path.string()), [&] {
    const Json* map = find_member(json, "weight_map");
    if (!map || !map->is_object() || map->empty()) fail("has no object 'weight_map' with tensors");
    WeightFiles files;
    files.index_path = path;
    std::map<std::string, size_t> shard_numbers;
    for (const auto& member : map->items()) {
      if (!member.value().is_string())
        fail("tensor " + quoted(member.key()) + " is mapped to something other than a string");
      shard_numbers.emplace(member.value().get<std::string>(), 0);
    }
    for (auto& [name, number] : shard_numbers) {
      check_shard_name(name);
      number = files.shards.size();
      files.shards.push_back(folder / name);
    }
    for (const auto& member : map->items())
      files.index.emplace(member.key(), shard_numbers.at(member.value().get_ref<const std::string&>()));
    return files;
  });
}

void require_shards(const WeightFiles& files) {
  std::vector<std::string> missing;
  for (const fs::path& shard : files.shards)
    if (!is_there(shard)) missing.push_back(shard.filename().string());
  if (missing.empty()) return;
  fail(quoted(files.index_path.string()) + ": names " + std::to_string(files.shards.size()) + " files, of which " +
       std::to_string(missing.size()) + " are missing, the first " + quoted(missing[0]) + "; " +
       completing(files.index_path.parent_path()));
}

std::optional<fs::path> find_index(const fs::path& folder, const std::vector<std::string>& names) {
  if (is_there(folder / "model.safetensors.index.json")) return folder / "model.safetensors.index.json";
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (std::string_view(name).ends_with(kIndexSuffix) && name.rfind("consolidated", 0) != 0) found.push_back(name);
  if (found.size() == 1) return folder / found[0];
  if (found.size() > 1)
    fail(quoted(folder.string()) + ": has " + std::to_string(found.size()) +
         " safetensors indexes and none is called model.safetensors.index.json");
  return std::nullopt;
}

fs::path find_single_file(const fs::path& folder, const std::vector<std::string>& names) {
  if (is_there(folder / "model.safetensors")) return folder / "model.safetensors";
  std::vector<std::string> found;
  for (const std::string& name : names)
    if (fs::path(name).extension() == ".safetensors" && name.rfind("consolidated", 0) != 0 &&
        name.rfind("adapter_model", 0) != 0)
      found.push_back(name);
  if (found.size() == 1) return folder / found[0];
  if (found.size() > 1)
    fail(quoted(folder.string()) + ": has " + std::to_string(found.size()) +
         " safetensors files but no index (model.safetensors.index.json); " + completing(folder));
  fail(quoted(folder.string()) + ": " + advice_for(folder, names));
}

}  // namespace

WeightFiles find_weight_files(const fs::path& folder) {
  const std::vector<std::string> names = file_names(folder);
  if (const std::optional<fs::path> index = find_index(folder, names)) {
    WeightFiles files = read_index(folder, *index);
    const bool stale =
        std::none_of(files.shards.begin(), files.shards.end(), is_there) && is_there(folder / "model.safetensors");
    if (!stale) {
      require_shards(files);
      return files;
    }
  }
  WeightFiles files;
  files.shards.push_back(find_single_file(folder, names));
  return files;
}

}  // namespace kvcal
