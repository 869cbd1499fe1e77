// A model folder as Hugging Face writes it: its configuration and the tensors of all shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config_file.h"
#include "checkpoint/safetensors.h"

namespace kvcal {

class Checkpoint : public FileLocator {
 public:
  /// Reads config.json and every shard's header; no tensor is read. Throws Error for everything that is wrong with
  /// them: see config_file.h, weight_files.h, safetensors.h; a tensor in two shards, or listed in the index but absent.
  static Checkpoint open(const std::filesystem::path& folder,
                         MappedFile::Access access = MappedFile::Access::MapOrRead);

  const std::filesystem::path& folder() const { return config_.folder; }
  const Json& config() const { return config_.config; }
  const Json& generation_config() const { return config_.generation_config; }  // null when there is none

  const std::vector<std::string>& names() const { return names_; }  // sorted
  /// The names that begin with prefix.
  std::span<const std::string> names_below(std::string_view prefix) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Null when there is no such tensor. Offsets are relative to the shard.
  const TensorInfo* find(std::string_view name) const;

  /// View of the stored bytes, read-only although `data` is not const; valid until drop() of that tensor or the end of
  /// this object. Throws Error when there is no such tensor or its file has been cut short.
  Tensor tensor(std::string_view name) const;

  /// Bytes of all tensors, and of those named (unknown names count nothing).
  uint64_t total_bytes() const { return total_bytes_; }
  uint64_t bytes_of(std::span<const std::string> names) const;
  size_t n_shards() const { return shards_.size(); }

  /// Begins to read the tensors in the background; gives their memory back (views of them end). Unknown names are
  /// ignored.
  void prefetch(std::span<const std::string> names) const;
  void drop(std::span<const std::string> names) const;

  /// The shard whose mapping holds these bytes.
  std::optional<FileRegion> locate(const void* address, size_t bytes) const override;

  /// Copies bytes [offset, offset + out.size()) of a tensor without mapping it.
  void read(std::string_view name, uint64_t offset, std::span<std::byte> out) const;

 private:
  struct Place {
    size_t shard;
    const TensorInfo* info;
  };
  Checkpoint() = default;
  const Place* place_of(std::string_view name) const;
  const Place& need(std::string_view name) const;

  ConfigFile config_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::vector<std::string> names_;
  std::vector<Place> places_;  // parallel to names_
  uint64_t total_bytes_ = 0;
};

}  // namespace kvcal
