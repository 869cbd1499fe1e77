#include "arch/golden.h"

#include <algorithm>

namespace kvcal {
namespace {

std::filesystem::path root() { return std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/golden"; }

}  // namespace

Golden::Golden(const std::string& name)
    : folder(root() / name), json(read_json_file(folder / "golden.json")), file(folder / "golden.safetensors") {}

std::vector<std::vector<int32_t>> Golden::sequences() const {
  return json.at("sequences").get<std::vector<std::vector<int32_t>>>();
}

std::vector<float> Golden::tensor(const std::string& name) const {
  const TensorInfo* info = file.find(name);
  if (!info) fail("golden has no tensor " + name);
  std::vector<float> values(static_cast<size_t>(info->shape.elements()));
  convert_to_float(info->dtype, file.tensor(*info).data, values.data(), values.size());
  return values;
}

std::vector<std::string> golden_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(root()))
    if (entry.is_directory()) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace kvcal
