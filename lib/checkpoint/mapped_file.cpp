#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <vector>

#include "base/input_files.h"
#include "base/read_file.h"
#include "checkpoint/mapped_address.h"

namespace kvcal {
namespace {

constexpr size_t kCopyAlignment = 64;

/// The mappings, for a signal handler: a slot is filled while Claimed and read while Ready.
struct Slot {
  enum State { Free, Claimed, Ready };
  std::atomic<int> state = Free;
  const std::byte* begin = nullptr;
  uint64_t bytes = 0;
  std::string name;  // quoted
};
std::array<Slot, 1024> slots;
static_assert(std::atomic<int>::is_always_lock_free);

void register_mapping(const std::byte* begin, uint64_t bytes, std::string name) {
  for (Slot& slot : slots) {
    int free = Slot::Free;
    if (!slot.state.compare_exchange_strong(free, Slot::Claimed)) continue;
    slot.begin = begin;
    slot.bytes = bytes;
    slot.name = std::move(name);
    return slot.state.store(Slot::Ready);
  }
}

void unregister_mapping(const std::byte* begin) {
  for (Slot& slot : slots)
    if (slot.state.load() == Slot::Ready && slot.begin == begin) return slot.state.store(Slot::Free);
}

uint64_t page_bytes() {
  static const uint64_t bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

void MappedFile::Free::operator()(void* p) const { std::free(p); }

MappedFile::MappedFile(std::filesystem::path path, Access access) : path_(std::move(path)) {
  const std::string name = quoted(path_.string());
  // O_NONBLOCK: a pipe must not make this wait; for regular files it means nothing.
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) fail(name + ": cannot open: " + errno_text(errno));
  struct stat info {};
  const bool known = ::fstat(fd_, &info) == 0;
  if (!known || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail(name + (known && S_ISDIR(info.st_mode) ? ": is a folder, expected a file" : ": is not a regular file"));
  }
  size_ = static_cast<uint64_t>(info.st_size);
  try {
    note_input(path_, info, InputUse::Long);
  } catch (...) {
    ::close(fd_);
    throw;
  }
  if (access == Access::ReadOnly || size_ == 0) return;
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  // Refused where the address space is limited (ulimit -v) or the file system cannot: range() then reads copies.
  if (map == MAP_FAILED) return;
  map_ = static_cast<std::byte*>(map);
  // For other people's files that cannot be written, mincore() says that all is there.
  tells_residency_ = info.st_uid == ::geteuid() || ::faccessat(AT_FDCWD, path_.c_str(), W_OK, AT_EACCESS) == 0;
  register_mapping(map_, (size_ + page_bytes() - 1) / page_bytes() * page_bytes(), name);  // the last page is whole
}

MappedFile::~MappedFile() {
  if (map_) {
    unregister_mapping(map_);
    ::munmap(map_, size_);
  }
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::refuse_if_shorter(uint64_t end) const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(quoted(path_.string()) + ": cannot read its size: " + errno_text(errno));
  if (static_cast<uint64_t>(info.st_size) < end)
    fail(quoted(path_.string()) + ": has become shorter while in use: " + std::to_string(info.st_size) +
         " bytes, expected " + std::to_string(size_) + "; is something rewriting it?");
}

void MappedFile::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(quoted(path_.string()) + ": cannot read: " + errno_text(errno));
    if (n == 0) {
      refuse_if_shorter(offset + out.size());
      fail(quoted(path_.string()) + ": ends at byte " + std::to_string(offset) + ", expected " +
           std::to_string(out.size()) + " bytes more");
    }
    offset += static_cast<uint64_t>(n);
    out = out.subspan(static_cast<size_t>(n));
  }
}

bool MappedFile::is_cached(uint64_t offset, uint64_t n) const {
  if (!tells_residency_ || n == 0 || offset >= size_ || n > size_ - offset) return false;
  const uint64_t begin = offset / page_bytes() * page_bytes(), end = offset + n;
  std::vector<unsigned char> pages((end - begin + page_bytes() - 1) / page_bytes());
  if (::mincore(map_ + begin, end - begin, pages.data()) != 0) return false;
  return std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
}

std::optional<uint64_t> MappedFile::offset_of(const void* address, size_t bytes) const {
  const auto at = reinterpret_cast<uintptr_t>(address), begin = reinterpret_cast<uintptr_t>(map_);
  if (!map_ || at < begin || at - begin > size_ || bytes > size_ - (at - begin)) return std::nullopt;
  return at - begin;
}

std::span<const std::byte> MappedFile::range(uint64_t offset, uint64_t n, size_t alignment) const {
  assert(offset <= size_ && n <= size_ - offset && alignment <= kCopyAlignment);
  // A read beyond the end of a mapped file is a SIGBUS; this cannot exclude it (mapped_address.h is for the rest), but
  // catches what happened so far.
  refuse_if_shorter(offset + n);
  if (map_ && reinterpret_cast<uintptr_t>(map_ + offset) % alignment == 0) return {map_ + offset, n};

  const std::lock_guard lock(mutex_);
  auto& copy = copies_[{offset, n}];
  if (!copy.memory) {
    const uint64_t rounded = std::max<uint64_t>((n + kCopyAlignment - 1) / kCopyAlignment * kCopyAlignment, 1);
    void* const memory = std::aligned_alloc(kCopyAlignment, std::max<uint64_t>(rounded, kCopyAlignment));
    if (!memory) {
      copies_.erase({offset, n});
      fail(quoted(path_.string()) + ": no memory for " + std::to_string(n) + " bytes of it");
    }
    copy = {n, std::unique_ptr<void, Free>(memory)};
    try {
      read(offset, {static_cast<std::byte*>(memory), n});
    } catch (...) {
      copies_.erase({offset, n});
      throw;
    }
  }
  return {static_cast<const std::byte*>(copy.memory.get()), n};
}

void MappedFile::advise(uint64_t offset, uint64_t n, int advice) const {
  if (!map_ || n == 0 || offset >= size_) return;
  const uint64_t begin = offset / page_bytes() * page_bytes();
  const uint64_t end = std::min(size_, offset + std::min(n, size_ - offset));
  // Advice only: a kernel that refuses it costs time, not correctness.
  static_cast<void>(::madvise(map_ + begin, end - begin, advice));
}

void MappedFile::prefetch(uint64_t offset, uint64_t n) const {
  if (map_) {
    advise(offset, n, MADV_WILLNEED);
  } else {
    static_cast<void>(::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(n), POSIX_FADV_WILLNEED));
  }
}

void MappedFile::drop(uint64_t offset, uint64_t n) const {
  advise(offset, n, MADV_DONTNEED);
  const std::lock_guard lock(mutex_);
  for (auto it = copies_.lower_bound({offset, 0}); it != copies_.end() && it->first.first - offset <= n;)
    it = it->first.second <= n - (it->first.first - offset) ? copies_.erase(it) : std::next(it);
}

std::string_view mapped_file_at(const void* address) noexcept {
  const auto* at = static_cast<const std::byte*>(address);
  for (const Slot& slot : slots) {
    if (slot.state.load() != Slot::Ready) continue;
    if (at >= slot.begin && at < slot.begin + slot.bytes) return slot.name;
  }
  return "";
}

}  // namespace kvcal
