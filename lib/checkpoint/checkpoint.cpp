#include "checkpoint/checkpoint.h"

#include <algorithm>

#include "base/error.h"
#include "base/input_files.h"
#include "checkpoint/weight_files.h"

namespace kvcal {
namespace {

void check_index(const WeightFiles& files, const std::vector<std::unique_ptr<SafetensorsFile>>& shards) {
  for (const auto& [name, shard] : files.index) {
    if (shards[shard]->find(name)) continue;
    const std::string listed = quoted(files.shards[shard].filename().string());
    for (const auto& other : shards)
      if (other->find(name))
        fail(quoted(files.index_path.string()) + ": tensor " + quoted(name) + " is listed in " + listed +
             " but is in " + quoted(other->path().filename().string()) +
             "; do index and files come from one download?");
    fail(quoted(files.index_path.string()) + ": tensor " + quoted(name) + " is listed in " + listed +
         ", which does not have it; do index and files come from one download?");
  }
}

}  // namespace

Checkpoint Checkpoint::open(const std::filesystem::path& folder, MappedFile::Access access) {
  Checkpoint result;
  result.config_ = read_config(folder);
  note_input_folder(result.folder());
  const WeightFiles files = find_weight_files(result.config_.folder);
  for (const std::filesystem::path& shard : files.shards)
    result.shards_.push_back(std::make_unique<SafetensorsFile>(shard, access));
  check_index(files, result.shards_);

  for (size_t shard = 0; shard < result.shards_.size(); ++shard)
    for (const TensorInfo& info : result.shards_[shard]->tensors()) result.places_.push_back({shard, &info});
  std::sort(result.places_.begin(), result.places_.end(),
            [](const Place& a, const Place& b) { return a.info->name < b.info->name; });
  for (const Place& place : result.places_) {
    const std::string& name = place.info->name;
    if (!result.names_.empty() && result.names_.back() == name)
      fail(quoted(result.folder().string()) + ": tensor " + quoted(name) + " is in two files, one of them " +
           quoted(result.shards_[place.shard]->path().filename().string()));
    result.names_.push_back(name);
    result.total_bytes_ += place.info->bytes;
  }
  return result;
}

std::span<const std::string> Checkpoint::names_below(std::string_view prefix) const {
  const auto begin = std::lower_bound(names_.begin(), names_.end(), prefix);
  const auto end =
      std::partition_point(begin, names_.end(), [&](const std::string& n) { return n.starts_with(prefix); });
  return {begin, end};
}

const Checkpoint::Place* Checkpoint::place_of(std::string_view name) const {
  const auto it = std::lower_bound(names_.begin(), names_.end(), name);
  return it != names_.end() && *it == name ? &places_[static_cast<size_t>(it - names_.begin())] : nullptr;
}

const Checkpoint::Place& Checkpoint::need(std::string_view name) const {
  const Place* place = place_of(name);
  if (!place) fail(quoted(folder().string()) + ": has no tensor " + quoted(name));
  return *place;
}

const TensorInfo* Checkpoint::find(std::string_view name) const {
  const Place* place = place_of(name);
  return place ? place->info : nullptr;
}

Tensor Checkpoint::tensor(std::string_view name) const {
  const Place& place = need(name);
  return shards_[place.shard]->tensor(*place.info);
}

uint64_t Checkpoint::bytes_of(std::span<const std::string> names) const {
  uint64_t bytes = 0;
  for (const std::string& name : names)
    if (const Place* place = place_of(name)) bytes += place->info->bytes;
  return bytes;
}

void Checkpoint::prefetch(std::span<const std::string> names) const {
  for (const std::string& name : names)
    if (const Place* place = place_of(name)) shards_[place->shard]->prefetch(*place->info);
}

void Checkpoint::drop(std::span<const std::string> names) const {
  for (const std::string& name : names)
    if (const Place* place = place_of(name)) shards_[place->shard]->drop(*place->info);
}

std::optional<FileRegion> Checkpoint::locate(const void* address, size_t bytes) const {
  for (const auto& shard : shards_)
    if (const auto offset = shard->file().offset_of(address, bytes)) return FileRegion{&shard->file(), *offset};
  return std::nullopt;
}

void Checkpoint::read(std::string_view name, uint64_t offset, std::span<std::byte> out) const {
  const Place& place = need(name);
  if (offset > place.info->bytes || out.size() > place.info->bytes - offset)
    fail("tensor " + quoted(name) + " has " + std::to_string(place.info->bytes) + " bytes, fewer than asked for");
  shards_[place.shard]->read(place.info->offset + offset, out);
}

}  // namespace kvcal
