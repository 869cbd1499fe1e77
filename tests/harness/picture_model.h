// A case of tests/arch/pictures as a checkpoint folder: the text weights of its golden with the tower of the case.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace kvcal {

/// The folders of tests/arch/pictures with a golden.
inline std::vector<std::string> picture_cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(KVCAL_SOURCE_DIR "/tests/arch/pictures"))
    if (std::filesystem::exists(entry.path() / "golden.json")) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class PictureModel {
 public:
  explicit PictureModel(const std::string& name)
      : source_(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/pictures" / name),
        golden_(read_json_file(source_ / "golden.json")),
        folder_(std::filesystem::temp_directory_path() / ("kvcal-pictures-" + name + "-" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const char* file :
         {"config.json", "preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
      if (std::filesystem::exists(source_ / file)) std::filesystem::copy_file(source_ / file, folder_ / file);
    write_weights();
  }
  ~PictureModel() { std::filesystem::remove_all(folder_); }
  PictureModel(const PictureModel&) = delete;
  PictureModel& operator=(const PictureModel&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::filesystem::path& source() const { return source_; }
  /// The golden whose text weights these are.
  std::filesystem::path text_folder() const { return std::filesystem::path(KVCAL_SOURCE_DIR) / golden_["model"]; }
  const Json& golden() const { return golden_; }
  std::filesystem::path image(size_t i) const { return source_.parent_path() / "images" / golden_["images"].at(i); }

 private:
  static bool of_tower(std::string_view name) {
    constexpr std::string_view kModules[] = {"visual.", "vision_model.", "vision_tower."};
    return std::ranges::any_of(kModules, [&](std::string_view module) { return name.find(module) != name.npos; });
  }

  void write_weights() const {
    const SafetensorsFile text(text_folder() / "model.safetensors");
    const SafetensorsFile tower(source_ / "tower.safetensors");
    std::map<std::string, Tensor> all;
    for (const TensorInfo& info : text.tensors())
      if (!of_tower(info.name)) all[info.name] = text.tensor(info);
    for (const TensorInfo& info : tower.tensors()) all[info.name] = tower.tensor(info);
    SafetensorsWriter out(folder_ / "model.safetensors", Existing::Refuse);
    for (const auto& [name, tensor] : all) out.declare(name, tensor.dtype, tensor.shape);
    for (const auto& [name, tensor] : all) out.write(name, tensor);
    out.commit();
  }

  std::filesystem::path source_;
  Json golden_;
  std::filesystem::path folder_;
};

}  // namespace kvcal
