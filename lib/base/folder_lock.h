// One process at a time works in a folder.
#pragma once

#include <filesystem>

namespace kvcal {

/// Held until destroyed, and no longer than the process lives. File systems without locks give none.
class FolderLock {
 public:
  /// Throws Error where another process holds it. `folder` exists.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;  // -1: none
};

}  // namespace kvcal
