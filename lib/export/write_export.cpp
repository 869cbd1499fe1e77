#include "export/write_export.h"

#include <map>
#include <set>

#include "base/atomic_folder.h"
#include "base/input_files.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "checkpoint/config_file.h"
#include "export/folder_files.h"
#include "export/record.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextBytes = size_t{512} << 20;

/// Never deletes what an export did not make. Returns the record of the one that is to be replaced.
std::optional<ExportRecord> check_target(const ExportInput& input, const WriteOptions& options) {
  const fs::path source = place_of(input.model.folder), out = place_of(input.out);
  const std::string name = quoted(input.out.string());
  if (out == source) fail(name + " is the model's own folder; choose a new one, or modify the model with --in-place");
  check_apart(input.model.folder, input.out);
  std::error_code ignored;
  if (!options.force || !fs::is_directory(out, ignored) || fs::is_empty(out, ignored)) return std::nullopt;
  // Asked before this function itself reads in the folder.
  const std::optional<std::string> read = input_within(out);
  const std::optional<ExportRecord> earlier = read_record(out);
  if (!earlier)
    fail(name + " was not written by kvcal export (it has no " + kExportRecord +
         "): --force does not delete other folders");
  if (read)
    fail(name + " holds " + quoted(*read) +
         ", which this command reads, and --force would delete it; move it elsewhere");
  if (earlier->in_place) fail(name + " is a model modified in place: --force does not delete models");
  return earlier;
}

std::set<std::string> made_by(const ExportRecord& earlier) {
  std::set<std::string> names = {kExportRecord};
  for (const RecordedFile& file : earlier.files) names.insert(file.name);
  return names;
}

ExportRecord record_of(const Exporter& exporter, const ExportPlan& plan, const WriteOptions& options) {
  ExportRecord record;
  record.target = exporter.name;
  record.tool_version = options.tool_version;
  record.scales_sha256 = options.scales_sha256;
  record.evaluation_sha256 = options.evaluation_sha256;
  record.in_place = options.in_place;
  for (const TextFile& file : plan.files) record.files.push_back({file.name, sha256_hex(file.text), ""});
  return record;
}

/// The overlay with the index and the record among its files, so that all of it is text but the shard.
Overlay whole_overlay(const Exporter& exporter, const ExportInput& input, ExportPlan plan,
                      const WriteOptions& options) {
  const fs::path& source = input.model.folder;
  TensorNames dropped(plan.dropped.begin(), plan.dropped.end());
  if (!plan.tensors.empty()) plan.files.push_back(index_with(source, plan.tensors, dropped));
  ExportRecord record = record_of(exporter, plan, options);
  if (!plan.tensors.empty()) record.files.push_back({kScaleShard, "", ""});
  std::vector<std::string> thinned = thinned_shards(source, dropped);
  for (const std::string& shard : thinned)
    if (shard != kScaleShard) record.files.push_back({shard, "", ""});
  std::error_code ignored;
  if (options.in_place)
    for (RecordedFile& file : record.files)
      if (fs::exists(source / file.name, ignored)) file.original = file.name + kOriginalSuffix;
  plan.files.push_back({kExportRecord, record_text(record)});
  return {source, std::move(plan.files), std::move(plan.tensors), std::move(dropped), std::move(thinned)};
}

/// Every file of the folder under its own name (hard links), but for those whose name `renamed` changes, or removes:
/// "".
void fill_twin(const fs::path& source, const fs::path& into, const std::map<std::string, std::string>& renamed) {
  for (const FolderEntry& entry : folder_entries(source)) {
    const auto other = renamed.find(entry.name.string());
    const fs::path name = other == renamed.end() ? entry.name : fs::path(other->second);
    if (name.empty()) continue;
    if (entry.is_folder)
      make_folder(into / name);
    else
      twin_file(entry.path, into / name);
  }
}

void check_backups(const fs::path& folder, const std::map<std::string, std::string>& renamed) {
  for (const auto& [name, backup] : renamed) {
    std::error_code ignored;
    if (fs::exists(folder / backup, ignored))
      fail(quoted((folder / backup).string()) + " exists: is it from an export that was not undone?");
  }
}

OverlayReport fill_in_place(const Overlay& overlay, const fs::path& into) {
  std::map<std::string, std::string> renamed;
  const auto changes = [&](const std::string& name) { renamed[name] = name + kOriginalSuffix; };
  for (const TextFile& file : overlay.files) changes(file.name);
  for (const std::string& shard : overlay.thinned) changes(shard);
  check_backups(overlay.source, renamed);
  fill_twin(overlay.source, into, renamed);
  return fill_additions(overlay, into);
}

/// Messages speak of the target, not of the temporary folder beside it.
template <class F>
auto speaking_of(const fs::path& temporary, const fs::path& target, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    std::string message = e.what();
    for (size_t at; (at = message.find(temporary.string())) != message.npos;)
      message.replace(at, temporary.string().size(), target.string());
    throw Error(message);
  }
}

OverlayReport write_folder(const Exporter& exporter, const ExportInput& input, const ExportPlan& plan,
                           const WriteOptions& options) {
  const std::optional<ExportRecord> earlier = options.in_place ? std::nullopt : check_target(input, options);
  const fs::path target = options.in_place ? fs::canonical(input.model.folder) : input.out;
  const bool replace = options.in_place || options.force;
  AtomicFolder folder(target, replace ? Existing::Replace : Existing::Refuse);
  return speaking_of(folder.path(), target, [&] {
    const Overlay overlay = whole_overlay(exporter, input, plan, options);
    OverlayReport report = options.in_place
                               ? fill_in_place(overlay, folder.path())
                               : fill_overlay(overlay, folder.path(), options.copy ? Weights::Copy : Weights::Link);
    while_doing("reading back what was written", [&] { exporter.read_back(input, plan, folder.path()); });
    if (earlier) check_nothing_lost(target, made_by(*earlier), folder.path());
    folder.commit();
    return report;
  });
}

OverlayReport write_single_file(const Exporter& exporter, const ExportInput& input, const ExportPlan& plan,
                                const WriteOptions& options) {
  const Existing existing = options.force ? Existing::Replace : Existing::Refuse;
  // What the name already stands for is never lost to a file that does not read back.
  const fs::path folder = input.out.has_parent_path() ? input.out.parent_path() : fs::path(".");
  check_writable(input.out, existing);
  AtomicFolder trial(folder / (input.out.filename().string() + ".kvcal-check"), Existing::Refuse);
  const fs::path copy = trial.path() / "file";
  speaking_of(copy, input.out, [&] {
    write_file_atomically(copy, plan.files.front().text, Existing::Refuse);
    while_doing("reading back what was written", [&] { exporter.read_back(input, plan, copy); });
  });
  write_file_atomically(input.out, plan.files.front().text, existing);
  OverlayReport report;
  report.written = 1;
  return report;
}

void check_unchanged(const fs::path& folder, const ExportRecord& record) {
  for (const RecordedFile& file : record.files)
    if (!file.sha256.empty() && sha256_hex(read_file(folder / file.name, kTextBytes)) != file.sha256)
      fail(quoted((folder / file.name).string()) +
           " was changed since the export; save your change elsewhere, then discard it here with --force");
}

}  // namespace

OverlayReport write_export(const Exporter& exporter, const ExportInput& input, const ExportPlan& plan,
                           const WriteOptions& options) {
  if (exporter.writes_folder) return write_folder(exporter, input, plan, options);
  return write_single_file(exporter, input, plan, options);
}

std::string undo_export(const fs::path& given, bool force) {
  const fs::path folder = fs::canonical(read_config(given).folder);  // of a cache: its snapshot
  const std::optional<ExportRecord> record = read_record(folder);
  if (!record || !record->in_place)
    fail(quoted(given.string()) + ": was not modified in place by kvcal export (no " + kExportRecord +
         " that says so); to undo an export into a new folder, delete that folder");
  if (!force) check_unchanged(folder, *record);
  std::map<std::string, std::string> renamed = {{kExportRecord, ""},
                                                {std::string(kExportRecord) + kOriginalSuffix, kExportRecord}};
  for (const RecordedFile& file : record->files) {
    renamed[file.name] = "";
    if (file.original.empty()) continue;
    std::error_code ignored;
    if (!fs::exists(folder / file.original, ignored))
      fail(quoted((folder / file.original).string()) + " is missing, so the original cannot be restored");
    renamed[file.original] = file.name;
  }
  AtomicFolder twin(folder, Existing::Replace);
  speaking_of(twin.path(), folder, [&] {
    fill_twin(folder, twin.path(), renamed);
    twin.commit();
  });
  return record->target;
}

}  // namespace kvcal
