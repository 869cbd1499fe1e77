#include "base/atomic_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// Names of temporaries for the signal handler, which may neither lock nor allocate. A slot is filled while Claimed and
/// read while Ready.
struct Slot {
  enum State { Free, Claimed, Ready };
  std::atomic<int> state = Free;
  std::array<char, PATH_MAX> path{};
};
std::array<Slot, 32> slots;
static_assert(std::atomic<int>::is_always_lock_free);

/// -1 when all slots are taken or the name is too long: the file is then merely not removed on a signal.
int register_temporary(const std::string& path) {
  if (path.size() + 1 > PATH_MAX) return -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    int free = Slot::Free;
    if (!slots[i].state.compare_exchange_strong(free, Slot::Claimed)) continue;
    std::memcpy(slots[i].path.data(), path.c_str(), path.size() + 1);
    slots[i].state.store(Slot::Ready);
    return static_cast<int>(i);
  }
  return -1;
}

void unregister_temporary(int slot) {
  if (slot >= 0) slots[static_cast<size_t>(slot)].state.store(Slot::Free);
}

std::string random_name() {
  std::random_device entropy;
  char name[40];
  std::snprintf(name, sizeof name, ".kvcal-%08x%08x.tmp", entropy(), entropy());
  return name;
}

std::string cause_of(int error) {
  switch (error) {
    case ENOENT:
      return errno_text(error) + "; does the folder exist?";
    case EDQUOT:
    case ENOSPC:
      return errno_text(error) + "; is the disk full?";
    default:
      return errno_text(error);
  }
}

[[noreturn]] void fail_write(const fs::path& path, const std::string& reason) {
  fail("cannot write " + quoted(path.string()) + ": " + reason);
}

[[noreturn]] void fail_exists(const fs::path& path, const char* when) {
  fail_write(path, std::string("it ") + when + "; use --force to replace it");
}

/// fsync; file systems that do not know it say EINVAL or ENOTSUP, which is not the user's problem.
bool synced(int fd) { return ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS; }

void sync_folder(const fs::path& folder) {
  // After the rename: a failure here loses nothing that could still be saved.
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(synced(fd));
  ::close(fd);
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

/// rename that fails with EEXIST instead of replacing.
bool rename_to_new(const char* from, const char* to) {
#ifdef SYS_renameat2
  if (::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
#endif
  if (::link(from, to) == 0) {  // network file systems without renameat2
    ::unlink(from);
    return true;
  }
  if (errno != EPERM && errno != EOPNOTSUPP) return false;
  struct stat info {};
  if (::lstat(to, &info) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(from, to) == 0;
}

}  // namespace

AtomicFile::AtomicFile(fs::path target, Existing existing)
    : shown_(std::move(target)), target_(shown_), existing_(existing) {
  if (!shown_.has_filename()) fail_write(shown_, "it names a folder, expected a file");
  std::error_code ignored;
  const fs::file_status link = fs::symlink_status(target_, ignored);
  if (fs::is_symlink(link)) {
    if (fs::path real = fs::canonical(target_, ignored); !ignored) target_ = std::move(real);
  }
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::is_directory(status)) fail_write(shown_, "it is a folder, expected a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) fail_write(shown_, "it is not a regular file");
  if (existing_ == Existing::Refuse && (fs::exists(status) || fs::is_symlink(link))) fail_exists(shown_, "exists");
  open_temporary();
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::open_temporary() {
  for (int attempt = 0; attempt < 16; ++attempt) {
    temporary_ = folder_of(target_) / random_name();
    // Registered first, so that no instant exists at which a signal would leave it behind.
    slot_ = register_temporary(temporary_.string());
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int error = errno;
    if (fd_ >= 0) break;
    unregister_temporary(slot_);
    slot_ = -1;
    if (error != EEXIST) fail_write(shown_, cause_of(error));
  }
  if (fd_ < 0) fail_write(shown_, "no unused temporary name in its folder");
  struct stat info {};
  if (::stat(target_.c_str(), &info) == 0) static_cast<void>(::fchmod(fd_, info.st_mode & 0777));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  assert(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write(shown_, cause_of(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void AtomicFile::commit() {
  assert(fd_ >= 0);
  if (!synced(fd_)) fail_write(shown_, cause_of(errno));
  const int closed = ::close(fd_);
  const int error = errno;
  fd_ = -1;
  if (closed != 0 && error != EINTR) fail_write(shown_, cause_of(error));
  give_name();
  unregister_temporary(slot_);
  slot_ = -1;
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void AtomicFile::give_name() {
  const bool named = existing_ == Existing::Replace ? ::rename(temporary_.c_str(), target_.c_str()) == 0
                                                    : rename_to_new(temporary_.c_str(), target_.c_str());
  if (named) return;
  if (errno == EEXIST) fail_exists(shown_, "appeared meanwhile");
  fail_write(shown_, cause_of(errno));
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  unregister_temporary(slot_);
}

void write_file_atomically(const fs::path& target, std::string_view content, Existing existing) {
  AtomicFile file(target, existing);
  file.write(content);
  file.commit();
}

void check_writable(const fs::path& target, Existing existing) { const AtomicFile file(target, existing); }

void unlink_temporaries_in_signal_handler() noexcept {
  for (Slot& slot : slots)
    if (slot.state.load() == Slot::Ready) ::unlink(slot.path.data());
}

}  // namespace kvcal
