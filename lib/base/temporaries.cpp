#include "base/temporaries.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/read_file.h"
#include "base/sha256.h"

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

/// What the kernel's getdents64 writes.
struct RawEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;
  char name[];
};

bool is_dot_name(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/// opendir and nftw allocate, so the kernel is asked itself. Deeper than any model folder is left alone.
void remove_folder_in_signal_handler(int parent, const char* name, int levels) noexcept {
  const int folder = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  alignas(RawEntry) char buffer[2048];
  for (;;) {
    const long n = ::syscall(SYS_getdents64, folder, buffer, sizeof buffer);
    if (n <= 0) break;
    for (long at = 0; at < n;) {
      const auto* entry = reinterpret_cast<const RawEntry*>(buffer + at);
      at += entry->bytes;
      if (is_dot_name(entry->name) || ::unlinkat(folder, entry->name, 0) == 0) continue;
      if (levels > 0) remove_folder_in_signal_handler(folder, entry->name, levels - 1);
    }
  }
  ::close(folder);
  ::unlinkat(parent, name, AT_REMOVEDIR);
}

/// What names of temporaries begin with: 8 digits that processes under one running kernel have in common, since its
/// locks tell these of each other. Where it does not say which kernel it is, no other process has them.
const std::string& temporary_prefix() {
  static const std::string prefix = [] {
    std::string boot;
    if (std::ifstream file("/proc/sys/kernel/random/boot_id"); !std::getline(file, boot) || boot.empty()) {
      std::random_device entropy;
      boot = std::to_string(entropy()) + " " + std::to_string(entropy());
    }
    return ".kvcal-" + sha256_hex(boot).substr(0, 8);
  }();
  return prefix;
}

bool is_temporary_of_this_machine(const std::string& name) {
  constexpr size_t kRandomDigits = 8;
  const std::string& prefix = temporary_prefix();
  return name.starts_with(prefix) && name.ends_with(".tmp") && name.size() == prefix.size() + kRandomDigits + 4;
}

bool is_at(int fd, const fs::path& path) {
  struct stat open {
  }, named{};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

void remove_if_abandoned(const fs::path& path) {
  // For writing: network file systems lock nothing else. Folders are opened for reading only.
  constexpr int kHow = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  int fd = ::open(path.c_str(), O_RDWR | kHow);
  if (fd < 0 && errno == EISDIR) fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | kHow);
  if (fd < 0) return;
  std::error_code ignored;
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, path)) fs::remove_all(path, ignored);
  ::close(fd);
}

}  // namespace

bool is_temporary_name(const std::string& name) {
  constexpr size_t kDigits = 16;
  constexpr std::string_view kBegin = ".kvcal-", kEnd = ".tmp";
  return name.size() == kBegin.size() + kDigits + kEnd.size() && name.starts_with(kBegin) && name.ends_with(kEnd) &&
         name.find_first_not_of("0123456789abcdef", kBegin.size()) == kBegin.size() + kDigits;
}

bool is_working_place(const fs::path& path) {
  return std::any_of(path.begin(), path.end(), [](const fs::path& part) {
    const std::string name = part.string();
    return is_temporary_name(name) || name.ends_with(".kvcal-resume") || name.ends_with(".kvcal-partial") ||
           name.ends_with(".kvcal-check");
  });
}

fs::path temporary_name(const fs::path& folder) {
  std::random_device entropy;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", entropy());
  return folder / (temporary_prefix() + digits + ".tmp");
}

bool own_temporary(int fd, const fs::path& path) {
  // Waits for one who looks whether it is abandoned. Without locks nobody removes it.
  while (::flock(fd, LOCK_EX) != 0 && errno == EINTR) {
  }
  return is_at(fd, path);
}

void remove_abandoned_temporaries(const fs::path& folder) noexcept {
  try {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (is_temporary_of_this_machine(it->path().filename().string())) remove_if_abandoned(it->path());
  } catch (const std::exception&) {  // no memory: they stay
  }
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

int register_temporary(const fs::path& path) {
  const std::string& text = path.native();
  if (text.size() + 1 > PATH_MAX) return -1;
  for (size_t i = 0; i < slots.size(); ++i) {
    int free = Slot::Free;
    if (!slots[i].state.compare_exchange_strong(free, Slot::Claimed)) continue;
    std::memcpy(slots[i].path.data(), text.c_str(), text.size() + 1);
    slots[i].state.store(Slot::Ready);
    return static_cast<int>(i);
  }
  return -1;
}

void release_temporary(int slot) {
  if (slot >= 0) slots[static_cast<size_t>(slot)].state.store(Slot::Free);
}

std::string write_failure(int error) {
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

bool sync_descriptor(int fd) { return ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS; }

void sync_folder(const fs::path& folder) {
  // After the rename: a failure here loses nothing that could still be saved.
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(sync_descriptor(fd));
  ::close(fd);
}

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

bool exchange_names(const char* a, const char* b) {
#ifdef SYS_renameat2
  return ::syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0;
#else
  errno = ENOSYS;
  return false;
#endif
}

void unlink_temporaries_in_signal_handler() noexcept {
  for (Slot& slot : slots)
    if (slot.state.load() == Slot::Ready && ::unlink(slot.path.data()) != 0 && errno == EISDIR)
      remove_folder_in_signal_handler(AT_FDCWD, slot.path.data(), 8);
}

}  // namespace kvcal
