#include "export/thin_shard.h"

#include <algorithm>
#include <array>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace kvcal {
namespace {

/// Read, not mapped: a file that is cut short meanwhile gives an error instead of a signal.
void copy_tensor(const SafetensorsFile& file, const TensorInfo& info, SafetensorsWriter& writer) {
  constexpr uint64_t kPiece = uint64_t{8} << 20;
  std::vector<std::byte> piece(std::min(info.bytes, kPiece));
  for (uint64_t done = 0; done < info.bytes; done += piece.size()) {
    piece.resize(std::min(info.bytes - done, kPiece));
    file.read(info.offset + done, piece);
    writer.write(info.name, piece);
  }
}

}  // namespace

bool holds_any(const std::filesystem::path& shard, const TensorNames& names) {
  const SafetensorsFile file(shard);
  return std::ranges::any_of(file.tensors(), [&](const TensorInfo& info) { return names.contains(info.name); });
}

bool copy_without(const std::filesystem::path& shard, const TensorNames& names, const std::filesystem::path& to) {
  const SafetensorsFile file(shard);
  std::vector<const TensorInfo*> kept;
  for (const TensorInfo& info : file.tensors())
    if (!names.contains(info.name)) kept.push_back(&info);
  if (kept.empty()) return false;
  SafetensorsWriter writer(to, Existing::Refuse, file.metadata());
  for (const TensorInfo* info : kept) writer.declare(info->name, info->dtype, info->shape);
  for (const TensorInfo* info : kept) copy_tensor(file, *info, writer);
  writer.commit();
  return true;
}

}  // namespace kvcal
