// Output folders that exist complete or not at all.
#pragma once

#include <filesystem>

#include "base/atomic_file.h"

namespace kvcal {

/// Makes a folder under a temporary name beside the target, to be filled; commit() makes it durable and gives it the
/// target's name in one step. Without commit() the destructor removes it, and so does a signal. The files in it are
/// made durable by whoever writes them. Throws Error: no such parent, no permission, disk full, the target is a file,
/// or (Existing::Refuse) a folder with anything in it. What a killed process left beside it is removed (temporaries.h).
class AtomicFolder {
 public:
  AtomicFolder(std::filesystem::path target, Existing existing);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }

  /// A folder that was there (Existing::Replace) changes places with the new one in one step and is then removed.
  /// Throws Error also when an input was changed (input_files.h). Call once.
  void commit();

 private:
  void make_temporary();
  void discard() noexcept;

  std::filesystem::path shown_;   // as the caller named it, for messages
  std::filesystem::path target_;  // with links resolved
  std::filesystem::path temporary_;
  bool replaces_ = false;
  int slot_ = -1;  // in the registry of temporaries
  int lock_ = -1;  // the open folder: locked as long as this process works in it
};

}  // namespace kvcal
