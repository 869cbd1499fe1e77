#include "export/folder_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/input_files.h"
#include "base/read_file.h"
#include "base/temporaries.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 100'000;

void write_all(int fd, const char* bytes, ssize_t n, const fs::path& to) {
  while (n > 0) {
    const ssize_t done = ::write(fd, bytes, static_cast<size_t>(n));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write(to, write_failure(errno));
    bytes += done;
    n -= done;
  }
}

void copy_bytes(int from, int to, const fs::path& source, const fs::path& target) {
  constexpr size_t kBlock = size_t{4} << 20;
  const auto block = std::make_unique<char[]>(kBlock);
  for (;;) {
    const ssize_t n = ::read(from, block.get(), kBlock);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(quoted(source.string()) + ": cannot read: " + errno_text(errno));
    if (n == 0) return;
    write_all(to, block.get(), n, target);
  }
}

}  // namespace

fs::path place_of(const fs::path& path) {
  fs::path place = fs::weakly_canonical(fs::absolute(path));
  return place.has_filename() ? place : place.parent_path();
}

void check_apart(const fs::path& model, const fs::path& out) {
  const fs::path source = place_of(model), target = place_of(out);
  const std::string name = quoted(out.string());
  if (is_within(target, source)) fail(name + " is inside the model's folder; choose a folder outside it");
  if (is_within(source, target)) fail(name + " contains the model's folder; choose another one");
}

std::vector<FolderEntry> folder_entries(const fs::path& folder) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code broken;
    const fs::file_status status = it->status(broken);
    const fs::path name = it->path().lexically_relative(folder);
    const bool is_link = it->is_symlink(broken), is_folder = fs::is_directory(status);
    if (fs::is_regular_file(status) || is_folder)
      entries.push_back({name, it->path(), is_folder && !is_link, is_folder && is_link});
    else if (!is_link)  // a link to nowhere is nothing that a server could read
      fail(quoted(it->path().string()) + ": is neither a file nor a folder; is this a model folder?");
    if (entries.size() > kMostEntries)
      fail(quoted(folder.string()) + ": has more than " + std::to_string(kMostEntries) +
           " files and folders; is this a model folder?");
  }
  if (error) fail(quoted(folder.string()) + ": cannot list the folder: " + errno_text(error.value()));
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

void check_nothing_lost(const fs::path& out, const std::set<std::string>& made, const fs::path& replacement) {
  for (const FolderEntry& entry : folder_entries(out)) {
    const std::string name = entry.name.string();
    std::error_code ignored;
    if (made.contains(name) || fs::exists(fs::symlink_status(replacement / entry.name, ignored))) continue;
    fail(quoted(out.string()) + " holds " + quoted(name) +
         ", which this export does not write: --force would delete it; move it elsewhere, or choose another folder");
  }
}

fs::path target_outside(const fs::path& entry, const fs::path& folder) {
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(entry, error))) return "";
  const fs::path target = fs::canonical(entry, error), source = fs::canonical(folder, error);
  if (target.empty() || is_within(target, source)) return "";
  const fs::path snapshots = source.parent_path(), blobs = snapshots.parent_path() / "blobs";
  return snapshots.filename() == "snapshots" && is_within(target, blobs) ? "" : target;
}

void make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) != 0) fail_write(path, write_failure(errno));
}

bool link_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  const fs::path real = fs::canonical(from, error);
  if (error) fail(quoted(from.string()) + ": " + errno_text(error.value()));
  if (::link(real.c_str(), to.c_str()) == 0) return true;
  // Across file systems, of another owner (protected_hardlinks), too many links, or a file system without any.
  if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != EOPNOTSUPP && errno != EACCES)
    fail_write(to, write_failure(errno));
  if (::symlink(real.c_str(), to.c_str()) != 0) fail_write(to, write_failure(errno));
  return false;
}

void twin_file(const fs::path& from, const fs::path& to) {
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) == 0) return;
  fail_write(to, errno_text(errno) + "; --in-place needs hard links: export into a new folder instead");
}

void copy_file_durably(const fs::path& from, const fs::path& to) {
  const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (source.get() < 0 || ::fstat(source.get(), &info) != 0)
    fail(quoted(from.string()) + ": cannot open: " + errno_text(errno));
  const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (info.st_mode & 0777) | 0200));
  if (target.get() < 0) fail_write(to, write_failure(errno));
  copy_bytes(source.get(), target.get(), from, to);
  if (!sync_descriptor(target.get())) fail_write(to, write_failure(errno));
}

}  // namespace kvcal
