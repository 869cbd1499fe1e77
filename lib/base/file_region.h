// Which file bytes in memory are mapped from, for code that reads the file directly instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace kvcal {

/// An open file. Safe from several threads.
class SourceFile {
 public:
  virtual ~SourceFile() = default;
  virtual int descriptor() const = 0;

  /// Copies bytes [offset, offset + out.size()); throws Error naming the file when it has become shorter or cannot be
  /// read.
  virtual void read(uint64_t offset, std::span<std::byte> out) const = 0;

  /// Whether the page cache holds all of these bytes; false also where the system does not tell.
  virtual bool is_cached(uint64_t offset, uint64_t n) const = 0;
};

struct FileRegion {
  const SourceFile* file = nullptr;
  uint64_t offset = 0;
};

class FileLocator {
 public:
  virtual ~FileLocator() = default;

  /// The file whose mapping holds all these bytes; nothing for any other memory. The file outlives the mapping.
  virtual std::optional<FileRegion> locate(const void* address, size_t bytes) const = 0;
};

}  // namespace kvcal
