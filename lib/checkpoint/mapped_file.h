// Read-only bytes of a large file: mapped, or read piece by piece where the address space does not allow that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/file_region.h"

namespace kvcal {

class MappedFile final : public SourceFile {
 public:
  enum class Access { MapOrRead, ReadOnly };

  /// Opens a regular file; Access::ReadOnly never maps (tests, and file systems that cannot). Throws Error.
  explicit MappedFile(std::filesystem::path path, Access access = Access::MapOrRead);
  ~MappedFile() override;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  uint64_t size() const { return size_; }  // when it was opened
  bool is_mapped() const { return map_ != nullptr; }

  /// Copies bytes [offset, offset + out.size()); throws Error when the file has become shorter or cannot be read.
  void read(uint64_t offset, std::span<std::byte> out) const override;
  int descriptor() const override { return fd_; }
  bool is_cached(uint64_t offset, uint64_t n) const override;

  /// Where in the file these bytes of its mapping stand; nothing for other memory.
  std::optional<uint64_t> offset_of(const void* address, size_t bytes) const;

  /// Bytes [offset, offset + n) at an address that is a multiple of `alignment` (a power of two, at most 64); valid
  /// until drop() covers the range or the file is closed. Points into the mapping where it can, else into a copy that
  /// this object keeps. Throws Error when the file is now shorter than when it was opened. Safe from several threads.
  std::span<const std::byte> range(uint64_t offset, uint64_t n, size_t alignment) const;

  /// Begins reading the range in the background.
  void prefetch(uint64_t offset, uint64_t n) const;

  /// Gives back the memory of the range: mapped pages leave this process (later reads fetch them again), and copies
  /// that lie wholly inside are freed: pointers from range() into it must not be used any more.
  void drop(uint64_t offset, uint64_t n) const;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  struct Copy {
    uint64_t bytes;
    std::unique_ptr<void, Free> memory;
  };
  void refuse_if_shorter(uint64_t end) const;
  void advise(uint64_t offset, uint64_t n, int advice) const;

  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  std::byte* map_ = nullptr;
  bool tells_residency_ = false;  // the system says which pages of the mapping are in memory
  mutable std::mutex mutex_;
  mutable std::map<std::pair<uint64_t, uint64_t>, Copy> copies_;  // by offset and length; guarded by mutex_
};

}  // namespace kvcal
