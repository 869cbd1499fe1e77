#include "base/input_files.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/temporaries.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// What tells one content from another without reading it. Not the time of change of the inode: a link to the file or
/// other permissions, which harm nobody, move it. On network file systems it is as old as the client's cache.
struct FileState {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t seconds = 0;
  long nanoseconds = 0;
  explicit FileState(const struct stat& s)
      : device(s.st_dev), inode(s.st_ino), size(s.st_size), seconds(s.st_mtim.tv_sec), nanoseconds(s.st_mtim.tv_nsec) {}
  bool operator==(const FileState&) const = default;
  bool is_same_file(const FileState& other) const { return device == other.device && inode == other.inode; }
};

struct Input {
  FileState state;
  InputUse use;
};

struct Record {
  std::map<fs::path, Input> files;
  std::set<fs::path> folders;
};

std::mutex mutex;
std::optional<Record> record;  // guarded by mutex

bool is_in_folder(const Record& all, const fs::path& path) {
  return std::any_of(all.folders.begin(), all.folders.end(),
                     [&](const fs::path& folder) { return is_within(path, folder); });
}

bool matters_for_long(const Record& all, const fs::path& path, const Input& input) {
  return input.use == InputUse::Long || is_in_folder(all, path);
}

/// "" where nothing has changed.
std::string change_between(const FileState& then, const FileState& now) {
  if (!then.is_same_file(now)) return "was replaced by another file";
  if (then.size != now.size)
    return "had " + std::to_string(then.size) + " bytes when it was opened, and has " + std::to_string(now.size) +
           " now";
  return then == now ? "" : "was written to";
}

[[noreturn]] void fail_changed(const fs::path& path, const std::string& change) {
  fail(quoted(path.string()) + " " + change +
       " while this command used it: a result would be of neither content; is another program writing it?");
}

}  // namespace

bool is_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

InputFiles::InputFiles() {
  const std::lock_guard lock(mutex);
  record.emplace();
}

InputFiles::~InputFiles() {
  const std::lock_guard lock(mutex);
  record.reset();
}

bool records_inputs() {
  const std::lock_guard lock(mutex);
  return record.has_value();
}

void note_input(const fs::path& path, const struct stat& info, InputUse use) {
  const std::lock_guard lock(mutex);
  if (!record || is_working_place(path)) return;
  const FileState state(info);
  const auto [place, is_new] = record->files.try_emplace(path, Input{state, use});
  Input& input = place->second;
  if (!is_new && S_ISFIFO(info.st_mode))
    fail(quoted(path.string()) + ": is a pipe, and this command reads it twice; put what it gives into a file");
  if (const std::string change = change_between(input.state, state); !is_new && !change.empty())
    fail_changed(path, change);
  if (use == InputUse::Long) input.use = use;
}

void note_input_folder(const fs::path& folder) {
  const std::lock_guard lock(mutex);
  if (record && !is_working_place(folder))
    record->folders.insert(folder.has_filename() ? folder : folder.parent_path());
}

void forget_inputs() {
  const std::lock_guard lock(mutex);
  if (!record) return;
  std::erase_if(record->files, [](const auto& file) { return is_in_folder(*record, file.first); });
  record->folders.clear();
}

void forget_input(const fs::path& path) {
  const std::lock_guard lock(mutex);
  if (record) record->files.erase(path);
}

std::optional<std::string> input_that_is(const struct stat& info) {
  const std::lock_guard lock(mutex);
  if (!record) return std::nullopt;
  // With size and time: an inode number may have gone to another file.
  const FileState state(info);
  for (const auto& [path, input] : record->files)
    if (input.state == state) return path.string();
  return std::nullopt;
}

std::optional<std::string> input_within(const fs::path& folder) {
  const std::lock_guard lock(mutex);
  if (!record) return std::nullopt;
  std::error_code ignored;
  const fs::path outer = fs::canonical(folder, ignored);
  for (const auto& [path, input] : record->files)
    if (!outer.empty() && is_within(fs::weakly_canonical(path, ignored), outer)) return path.string();
  return std::nullopt;
}

void check_inputs_unchanged() {
  const std::lock_guard lock(mutex);
  if (!record) return;
  for (const auto& [path, input] : record->files) {
    struct stat info {};
    if (!matters_for_long(*record, path, input) || ::stat(path.c_str(), &info) != 0) continue;
    if (const std::string change = change_between(input.state, FileState(info)); !change.empty())
      fail_changed(path, change);
  }
}

}  // namespace kvcal
