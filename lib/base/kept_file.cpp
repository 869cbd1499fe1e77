#include "base/kept_file.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file_kind.h"
#include "base/temporaries.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

bool has_config(const fs::path& folder) {
  return kind_of_file(folder / "config.json") == FileKind::Config ||
         kind_of_file(folder / "adapter_config.json") == FileKind::Adapter;
}

/// Weights without a config.json: a download under way, or in the model maker's own format.
bool has_weights(const fs::path& folder) {
  constexpr std::array<std::string_view, 5> kNames = {".safetensors", ".gguf", ".bin", ".pt", ".pth"};
  int n_left = 64;  // to look into: a folder may have any number
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && n_left > 0; it.increment(error)) {
    if (std::ranges::find(kNames, it->path().extension().string()) == kNames.end()) continue;
    --n_left;
    if (is_of_model(kind_of_file(it->path()))) return true;
  }
  return false;
}

}  // namespace

std::string why_kept(const fs::path& path) {
  std::error_code ignored;
  const fs::path place = fs::absolute(path, ignored);
  if (!fs::is_regular_file(place, ignored) || is_working_place(place)) return "";
  const FileKind kind = kind_of_file(place);
  if (is_of_model(kind)) return "it is " + std::string(name_of(kind)) + ": --force replaces no files of a model";
  if (is_output(kind)) return "";
  const fs::path folder = place.parent_path(), above = folder.parent_path();
  const bool is_inside = has_config(folder) || has_weights(folder);
  if (!is_inside && !has_config(above)) return "";
  return "it is in the model folder " + quoted((is_inside ? folder : above).string()) +
         ": --force replaces only kvcal's own files there";
}

}  // namespace kvcal
