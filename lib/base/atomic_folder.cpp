#include "base/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/input_files.h"
#include "base/temporaries.h"

namespace kvcal {

namespace fs = std::filesystem;

AtomicFolder::AtomicFolder(fs::path target, Existing existing) : shown_(std::move(target)), target_(shown_) {
  if (shown_ == "-") fail_write(shown_, kNotStandardOutput);
  if (!target_.has_filename()) target_ = target_.parent_path();  // "out/"
  std::error_code ignored;
  if (fs::is_symlink(fs::symlink_status(target_, ignored))) {
    target_ = fs::canonical(target_, ignored);
    if (ignored) fail_write(shown_, "it is a symlink to what is not there");
  }
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::exists(status) && !fs::is_directory(status)) fail_write(shown_, "it is a file, expected a folder");
  if (fs::is_directory(status) && !fs::is_empty(target_, ignored)) {
    if (existing == Existing::Refuse) fail_exists(shown_, "exists");
    replaces_ = true;
  }
  make_temporary();
}

AtomicFolder::~AtomicFolder() { discard(); }

void AtomicFolder::make_temporary() {
  remove_abandoned_temporaries(folder_of(target_));
  for (int attempt = 0; attempt < 16; ++attempt) {
    temporary_ = temporary_name(folder_of(target_));
    // Registered first, so that no instant exists at which a signal would leave it behind.
    slot_ = register_temporary(temporary_);
    const bool made = ::mkdir(temporary_.c_str(), 0777) == 0;
    const int error = made ? EEXIST : errno;
    if (made) lock_ = ::open(temporary_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    // Without permission to open it nobody else opens it to look whether it is abandoned.
    if (made && (lock_ < 0 || own_temporary(lock_, temporary_))) break;
    if (lock_ >= 0) ::close(lock_);
    lock_ = -1;
    release_temporary(slot_);
    slot_ = -1;
    temporary_.clear();
    if (error != EEXIST) fail_write(shown_, write_failure(error));
  }
  if (temporary_.empty()) fail_write(shown_, "no unused temporary name in its folder");
  struct stat info {};
  if (replaces_ && ::stat(target_.c_str(), &info) == 0)
    static_cast<void>(::chmod(temporary_.c_str(), info.st_mode & 07777));
}

void AtomicFolder::commit() {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temporary_, ignored))
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) sync_folder(entry.path());
  sync_folder(temporary_);
  check_inputs_unchanged();
  // Without an exchange, rename gives way to nothing but an empty folder.
  const bool named = replaces_ ? exchange_names(temporary_.c_str(), target_.c_str())
                               : ::rename(temporary_.c_str(), target_.c_str()) == 0;
  if (!named && (errno == EEXIST || errno == ENOTEMPTY)) fail_exists(shown_, "appeared meanwhile");
  if (!named && replaces_ && (errno == EINVAL || errno == ENOSYS))
    fail_write(shown_, "this file system cannot exchange two folders in one step; choose a new folder");
  if (!named && errno == EBUSY)
    fail_write(shown_, "it is the root of a mounted file system; choose a folder inside it");
  if (!named) fail_write(shown_, write_failure(errno));
  sync_folder(folder_of(target_));
  discard();  // what was replaced
}

void AtomicFolder::discard() noexcept {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  if (lock_ >= 0) ::close(lock_);
  lock_ = -1;
  release_temporary(slot_);
  slot_ = -1;
  temporary_.clear();
}

}  // namespace kvcal
