// A scale file as bytes: how much is read, how deep it may be nested, and whose name messages begin with.
#include "artifact/artifact.h"
#include "artifact/pack_names.h"
#include "base/file_kind.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

}  // namespace

std::filesystem::path scale_file_of(const std::filesystem::path& given) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(given / kPackManifest, ignored) ? given / kPackScales : given;
}

Artifact parse_artifact(std::string_view text, const std::filesystem::path& path) {
  JsonLimits limits;
  limits.max_bytes = kMaxBytes;
  limits.max_depth = 32;
  return parsing(FileKind::ScaleFile, kExpectedScales, text, path.string(), [&] {
    return while_doing(quoted(path.string()), [&] { return artifact_from_json(parse_json(text, limits)); });
  });
}

std::string read_artifact_text(const std::filesystem::path& path) {
  const std::filesystem::path file = scale_file_of(path);
  return reading(FileKind::ScaleFile, kExpectedScales, file, [&] { return read_file(file, kMaxBytes); });
}

Artifact read_artifact(const std::filesystem::path& path) { return parse_artifact(read_artifact_text(path), path); }

}  // namespace kvcal
