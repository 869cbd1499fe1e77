#include "fold/fold_folder.h"

#include <algorithm>
#include <optional>

#include "base/atomic_file.h"
#include "base/atomic_folder.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "checkpoint/fold_mark.h"
#include "checkpoint/weight_files.h"
#include "export/folder_files.h"
#include "fold/changed_shard.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPartialSuffix = ".kvcal-partial";
constexpr const char* kChangeName = "change.txt";

void check_target(const FolderChange& change) {
  const fs::path source = place_of(change.source), out = place_of(change.out);
  const std::string name = quoted(change.out.string());
  if (out == source) fail(name + " is the model's own folder; choose a new one");
  check_apart(change.source, change.out);
  std::error_code ignored;
  if (fs::exists(out, ignored) && !(fs::is_directory(out, ignored) && fs::is_empty(out, ignored)))
    fail(name + " exists; choose a new folder");
}

/// What tells one change from another, for a run that goes on: names, powers, and the shards as they are now.
std::string identity_of(const FolderChange& change, const TouchedShards& shards) {
  Sha256 hash;
  for (const TensorFold& t : change.tensors) {
    hash.update(t.name + (t.axis == Axis::Rows ? " rows" : " columns") + (t.one_plus ? " of 1 + w" : ""));
    for (const int e : t.exponents) hash.update(" " + std::to_string(e));
    hash.update("\n");
  }
  for (const fs::path& shard : shards.paths)
    hash.update(shard.string() + " " + std::to_string(fs::file_size(shard)) + " " +
                std::to_string(fs::last_write_time(shard).time_since_epoch().count()) + "\n");
  return hash.hex() + "\n";
}

/// The folder of finished shards, which outlives an interrupted run.
class PartialFolder {
 public:
  PartialFolder(const fs::path& out, const std::string& identity) : path_(place_of(out).string() + kPartialSuffix) {
    std::error_code ignored;
    if (!fs::exists(path_, ignored)) make_folder(path_);
    lock_.emplace(path_);
    if (holds_nothing()) {
      write_file_atomically(path_ / kChangeName, identity, Existing::Refuse);
      return;
    }
    constexpr size_t kMostBytes = 1 << 10;
    if (!fs::is_regular_file(path_ / kChangeName, ignored) || read_file(path_ / kChangeName, kMostBytes) != identity)
      fail(quoted(path_.string()) + " is from another fold that was interrupted; remove it");
  }

  bool has(const std::string& shard) const {
    std::error_code ignored;
    return fs::is_regular_file(path_ / shard, ignored);
  }

  /// write() fills `shard`. An Error says what is kept, and that is nothing where no shard is complete.
  void add(const std::string& shard, const std::function<void(const fs::path&)>& write) const {
    try {
      write(path_ / shard);
    } catch (const Error& e) {
      const auto is_shard = [](const fs::directory_entry& entry) { return entry.path().filename() != kChangeName; };
      std::error_code ignored;
      const auto entries = fs::directory_iterator(path_, ignored);
      if (std::any_of(begin(entries), end(entries), is_shard))
        throw Error(std::string(e.what()) + "; finished shards are in " + quoted(path_.string()) +
                    ", the same command goes on from there");
      remove();
      throw;
    }
  }
  /// A second name for a finished shard, so that it outlives a run that is stopped in the check; where there are no
  /// hard links its only one.
  void give(const std::string& shard, const fs::path& to) const {
    std::error_code error;
    fs::create_hard_link(path_ / shard, to, error);
    if (error) fs::rename(path_ / shard, to, error);
    if (error) fail("cannot write " + quoted(to.string()) + ": " + error.message());
  }
  void remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }

 private:
  /// As it is made, and as a run leaves it that is killed before it says whose it is.
  bool holds_nothing() const {
    std::error_code ignored;
    const auto is_temporary = [](const fs::directory_entry& entry) {
      return entry.path().filename().string().starts_with(".kvcal-");
    };
    const auto entries = fs::directory_iterator(path_, ignored);
    return fs::is_directory(path_, ignored) && std::all_of(begin(entries), end(entries), is_temporary);
  }

  fs::path path_;
  std::optional<FolderLock> lock_;
};

std::vector<fs::path> weights_of(const FolderChange& change) {
  std::vector<fs::path> shards = change.shards.empty() ? find_weight_files(change.source).shards : change.shards;
  for (const fs::path& shard : shards)
    if (place_of(shard.parent_path()) != place_of(change.source))
      fail("the weights " + quoted(shard.string()) + " are in a folder below the model's, which is not folded; " +
           "move them beside config.json, and change the index");
  return shards;
}

}  // namespace

TouchedShards touched_shards(const std::vector<fs::path>& shards, const std::vector<TensorFold>& tensors) {
  TouchedShards touched;
  for (const fs::path& path : shards) {
    const SafetensorsFile shard(path);
    if (folds_in(shard, tensors).empty()) continue;
    touched.paths.push_back(path);
    touched.bytes += shard.file().size();
  }
  return touched;
}

FolderChangeReport write_folder_change(const FolderChange& change, const std::function<void(const fs::path&)>& check) {
  check_target(change);
  AtomicFolder folder(change.out, Existing::Refuse);
  const TouchedShards shards = touched_shards(weights_of(change), change.tensors);
  const PartialFolder partial(change.out, identity_of(change, shards));
  FolderChangeReport report;
  for (const fs::path& path : shards.paths) {
    const std::string name = path.filename().string();
    report.shards.push_back(name);
    if (partial.has(name)) {
      ++report.n_resumed;
      continue;
    }
    if (change.listener && shards.paths.size() > 1)
      change.listener->hear(Notice::Note, "rewriting " + quoted(name) + ", " + std::to_string(report.shards.size()) +
                                              " of " + std::to_string(shards.paths.size()));
    partial.add(name, [&](const fs::path& to) {
      const SafetensorsFile shard(path);
      write_changed(shard, folds_in(shard, change.tensors), to, change.subnormals);
    });
  }
  Overlay overlay;
  overlay.source = change.source;
  overlay.elsewhere = {report.shards.begin(), report.shards.end()};
  overlay.elsewhere.insert(kFoldRecord);
  if (!change.record.empty()) overlay.files.push_back({kFoldRecord, change.record});
  report.files = fill_overlay(overlay, folder.path(), change.untouched);
  for (const std::string& name : report.shards) partial.give(name, folder.path() / name);
  report.files.written += report.shards.size();
  try {
    check(folder.path());
  } catch (...) {
    partial.remove();
    throw;
  }
  folder.commit();
  partial.remove();
  return report;
}

}  // namespace kvcal
