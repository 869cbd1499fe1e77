// Reads a file past the page cache: no copy by the processor, and nothing is pushed out of the cache for it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/file_region.h"

namespace kvcal::cuda {

class DirectFile {
 public:
  static constexpr uint64_t kAlignment = 4096;  // of memory, offset and length of a direct read

  /// `direct` false: through the page cache always. The file must outlive this.
  DirectFile(const SourceFile& file, bool direct);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  /// Reads bytes [begin, end) and returns where `begin` stands. `to` is aligned to kAlignment and has room for the
  /// bytes with both ends rounded to it. What the page cache holds already is taken from there; where the file system
  /// refuses direct reads, everything is. Throws Error as SourceFile::read does. Safe from several threads.
  const std::byte* read(uint64_t begin, uint64_t end, std::byte* to) const;

  /// Bytes that were read, whole sectors where read directly.
  uint64_t bytes_read() const { return bytes_read_; }

 private:
  bool read_direct(uint64_t begin, uint64_t end, std::byte* to) const;

  const SourceFile& file_;
  int fd_ = -1;
  mutable std::atomic<bool> direct_{false};
  mutable std::atomic<uint64_t> bytes_read_{0};
};

}  // namespace kvcal::cuda
