#include "arch/golden.h"

#include <algorithm>
#include <fstream>

namespace kvcal {
namespace fs = std::filesystem;

static fs::path arch_folder() { return fs::path(KVCAL_SOURCE_DIR) / "tests/arch"; }

Golden::Golden(const std::string& name)
    : folder(arch_folder() / "golden" / name),
      json(read_json_file(folder / "golden.json")),
      file(folder / "golden.safetensors") {}

std::vector<std::vector<int32_t>> Golden::sequences() const {
  return json.at("sequences").get<std::vector<std::vector<int32_t>>>();
}

std::vector<float> Golden::tensor(const std::string& name) const { return golden_tensor(file, name); }

std::vector<float> kept_tokens(const std::vector<float>& rows, size_t n_tokens) {
  const size_t width = rows.size() / n_tokens;
  std::vector<float> kept;
  for (size_t token = 0; token < n_tokens; token += 4)
    for (size_t i = 0; i < width; ++i) kept.push_back(rows[token * width + i]);
  return kept;
}

std::vector<float> golden_tensor(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* info = file.find(name);
  if (!info) fail("golden has no tensor " + name);
  std::vector<float> values(static_cast<size_t>(info->shape.elements()));
  convert_to_float(info->dtype, file.tensor(*info).data, values.data(), values.size());
  return values;
}

std::vector<std::string> cases_of(const std::string& kind) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(arch_folder() / kind))
    if (entry.is_directory()) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void write_mtp_checkpoint(const std::string& name, const fs::path& folder) {
  const fs::path mtp = arch_folder() / "mtp" / name;
  const fs::path base = Golden(read_json_file(mtp / "golden.json").at("base").get<std::string>()).folder;
  fs::create_directories(folder);
  fs::copy_file(base / "config.json", folder / "config.json", fs::copy_options::overwrite_existing);
  const std::pair<const char*, fs::path> shards[] = {{"model.safetensors", base / "model.safetensors"},
                                                     {"mtp.safetensors", mtp / "mtp.safetensors"}};
  Json map = Json::object();
  for (const auto& [shard, path] : shards) {
    fs::copy_file(path, folder / shard, fs::copy_options::overwrite_existing);
    const SafetensorsFile file(path);
    for (const TensorInfo& t : file.tensors()) map[t.name] = shard;
  }
  std::ofstream(folder / "model.safetensors.index.json") << Json{{"weight_map", map}};
}

std::vector<std::string> golden_cases() { return cases_of("golden"); }

}  // namespace kvcal
