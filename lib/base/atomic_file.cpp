#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/input_files.h"
#include "base/kept_file.h"
#include "base/temporaries.h"

namespace kvcal {

namespace fs = std::filesystem;

AtomicFile::AtomicFile(fs::path target, Existing existing)
    : shown_(std::move(target)), target_(shown_), existing_(existing) {
  if (shown_ == "-") fail_write(shown_, kNotStandardOutput);
  if (!shown_.has_filename()) fail_write(shown_, "it names a folder, expected a file");
  std::error_code ignored;
  const fs::file_status link = fs::symlink_status(target_, ignored);
  if (fs::is_symlink(link)) {
    if (fs::path real = fs::canonical(target_, ignored); !ignored) target_ = std::move(real);
  }
  const fs::file_status status = fs::status(target_, ignored);
  if (fs::is_directory(status)) fail_write(shown_, "it is a folder, expected a file");
  if (fs::exists(status) && !fs::is_regular_file(status)) fail_write(shown_, "it is not a regular file");
  refuse_kept();
  if (existing_ == Existing::Refuse && (fs::exists(status) || fs::is_symlink(link))) fail_exists(shown_, "exists");
  open_temporary();
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::refuse_kept() const {
  struct stat info {};
  if (!records_inputs() || ::stat(target_.c_str(), &info) != 0) return;
  // A link may lead out of a model's folder, or into one.
  std::string why = why_kept(shown_);
  if (why.empty() && target_ != shown_) why = why_kept(target_);
  if (!why.empty()) fail_write(shown_, why + "; choose another name");
  if (const auto input = input_that_is(info))
    fail_write(shown_, "it is a file that this command reads" +
                           (*input == shown_.string() ? "" : ", as " + quoted(*input)) + "; choose another name");
}

void AtomicFile::open_temporary() {
  remove_abandoned_temporaries(folder_of(target_));
  for (int attempt = 0; attempt < 16; ++attempt) {
    temporary_ = temporary_name(folder_of(target_));
    // Registered first, so that no instant exists at which a signal would leave it behind.
    slot_ = register_temporary(temporary_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int error = errno;
    if (fd_ >= 0 && own_temporary(fd_, temporary_)) break;
    if (fd_ >= 0) ::close(fd_);
    const bool taken = fd_ >= 0 || error == EEXIST;
    fd_ = -1;
    release_temporary(slot_);
    slot_ = -1;
    if (!taken) fail_write(shown_, write_failure(error));
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
    if (n < 0) fail_write(shown_, write_failure(errno));
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
}

void AtomicFile::rewrite(uint64_t offset, std::string_view text) {
  assert(fd_ >= 0);
  while (!text.empty()) {
    const ssize_t n = ::pwrite(fd_, text.data(), text.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_write(shown_, write_failure(errno));
    text.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void AtomicFile::commit() {
  assert(fd_ >= 0);
  if (!sync_descriptor(fd_)) fail_write(shown_, write_failure(errno));
  refuse_kept();
  check_inputs_unchanged();
  // Closing may fail, and gives up the lock, which is held until the file has its name.
  const Descriptor lock(::dup(fd_));
  const int closed = ::close(fd_);
  const int error = errno;
  fd_ = -1;
  if (closed != 0 && error != EINTR) fail_write(shown_, write_failure(error));
  give_name();
  release_temporary(slot_);
  slot_ = -1;
  temporary_.clear();
  sync_folder(folder_of(target_));
}

void AtomicFile::give_name() {
  const bool named = existing_ == Existing::Replace ? ::rename(temporary_.c_str(), target_.c_str()) == 0
                                                    : rename_to_new(temporary_.c_str(), target_.c_str());
  if (named) return;
  if (errno == EEXIST) fail_exists(shown_, "appeared meanwhile");
  fail_write(shown_, write_failure(errno));
}

void AtomicFile::discard() noexcept {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  release_temporary(slot_);
}

void write_file_atomically(const fs::path& target, std::string_view content, Existing existing) {
  AtomicFile file(target, existing);
  file.write(content);
  file.commit();
}

void check_writable(const fs::path& target, Existing existing) { const AtomicFile file(target, existing); }

}  // namespace kvcal
