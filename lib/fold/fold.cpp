#include "fold/fold.h"

#include <algorithm>

#include "base/read_file.h"
#include "base/sha256.h"
#include "checkpoint/fold_mark.h"
#include "checkpoint/kv_scale_names.h"
#include "checkpoint/weight_files.h"
#include "fold/adapter_fold.h"
#include "stats/statistics_file.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostStatistics = size_t{4} << 30;  // bytes

void check_without_scales(const Checkpoint& checkpoint, const std::string& why) {
  for (const std::string& name : checkpoint.names())
    if (KvScaleName ignored; parse_kv_scale_name(name, ignored))
      fail("it has KV scales of its own, " + quoted(name) + " for one, " + why);
}

void check_foldable(const Checkpoint& checkpoint) {
  if (read_fold_record(checkpoint.folder()))
    fail("it is folded already (" + std::string(kFoldRecord) + "); fold the original, or take this back with --undo");
  check_without_scales(checkpoint, "which would not fit what is folded; fold a checkpoint without them");
}

/// A record that was edited or copied from elsewhere would leave a model that is neither.
void check_takes_back(const Checkpoint& checkpoint, const Json& record, const std::vector<TensorFold>& tensors) {
  if (!find_member(record, "model"))
    fail(std::string(kFoldRecord) + " does not say whose weights these were ('model')");
  for (const TensorFold& t : tensors)
    if (!checkpoint.has(t.name))
      fail("there is no tensor " + quoted(t.name) + ", of which " + kFoldRecord +
           " tells; is the record from another checkpoint?");
  check_without_scales(checkpoint, "measured on the folded weights; take back the fold of the folder without them");
}

/// Weights that were changed after the fold (tuned, quantized) do not become the original's.
void check_is_original(const fs::path& written, const Json& record) {
  const OpenedModel model(written);
  if (model_info_from(record.at("model")).weights_fingerprint != describe(model).weights_fingerprint)
    fail("the weights are not those of the model that was folded: they were changed since, or the record was");
}

bool has_mtp(const Statistics& statistics) { return statistics.run.model && statistics.run.model->n_mtp_layers > 0; }

/// Where it was measured and the checkpoint has one: its weights take what its cache needs.
void add_mtp_as_measured(const Statistics& statistics, OpenedModel& model) {
  if (has_mtp(statistics) && has_mtp_layer(model.spec(), model.weights)) model.model->add_mtp_layer();
}

void say_what_stays(const Statistics& statistics, const OpenedModel& model, CalibrationListener& listener) {
  const bool there = has_mtp_layer(model.spec(), model.weights), measured = has_mtp(statistics);
  if (there && !measured)
    listener.hear(
        Notice::Note,
        "the MTP layer stays as it is: the statistics have none of its cache, which calibrate --mtp measures");
  if (measured && !there)
    listener.hear(Notice::Note, "the checkpoint has no MTP layer: what was measured of one is left out");
}

std::string sha256_of(const fs::path& path) { return sha256_hex(read_file(path, kMostStatistics)); }

/// "folder/" names the folder too.
std::string without_slash(const fs::path& path) { return (path.has_filename() ? path : path.parent_path()).string(); }

std::vector<FoldedAdapter> plan_adapters(const FoldRequest& request, const OpenedModel& model, const FoldPlan& plan) {
  std::vector<FoldedAdapter> adapters;
  for (const fs::path& given : request.adapters) {
    std::error_code ignored;
    const fs::path folder = fs::weakly_canonical(given),
                   out = without_slash(request.out) + "-" + folder.filename().string();
    if (fs::exists(out, ignored) && !request.plan_only) fail("writing " + quoted(out.string()) + ": it exists");
    if (std::ranges::any_of(adapters, [&](const FoldedAdapter& a) { return a.out == out; }))
      fail("two adapters are called " + quoted(folder.filename().string()) + "; fold one, then the other");
    adapters.push_back({folder, out, fold_adapter(folder, model, plan)});
  }
  return adapters;
}

/// All of them or, where one fails, none.
void write_adapters(const FoldResult& result, const FoldRequest& request) {
  std::vector<fs::path> written;
  try {
    for (const FoldedAdapter& a : result.adapters) {
      write_folder_change({a.source,
                           a.out,
                           a.tensors,
                           adapter_record_text(result.record, a.tensors),
                           Subnormals::Refuse,
                           request.untouched,
                           {adapter_weights(a.source)}},
                          [](const fs::path&) {});
      written.push_back(a.out);
    }
  } catch (...) {
    std::error_code ignored;
    for (const fs::path& folder : written) fs::remove_all(folder, ignored);
    throw;
  }
}

}  // namespace

FoldResult fold(const FoldRequest& request, const OpenPrecision& open, CalibrationListener& listener) {
  OpenedModel original(request.model);
  const fs::path& folder = original.checkpoint.folder();
  while_doing(quoted(request.model.string()), [&] { check_foldable(original.checkpoint); });
  const Statistics statistics = read_statistics(request.statistics);
  say_what_stays(statistics, original, listener);
  add_mtp_as_measured(statistics, original);
  FoldResult result;
  result.record = {request.tool_version, describe(original), sha256_of(request.statistics), request.options.format,
                   while_doing(quoted(request.statistics.string()),
                               [&] { return plan_fold(original, statistics, request.options); })};
  result.touched = touched_shards(find_weight_files(folder).shards, result.record.plan.tensors);
  result.adapters = plan_adapters(request, original, result.record.plan);
  if (request.plan_only || !result.folds()) return result;
  const FolderChange change{folder,
                            request.out,
                            result.record.plan.tensors,
                            record_text(result.record),
                            Subnormals::Refuse,
                            request.untouched,
                            {},
                            &listener};
  result.written = write_folder_change(change, [&](const fs::path& written) {
    OpenedModel folded(written);
    add_mtp_as_measured(statistics, folded);
    if (request.check) {
      if (result.touched.paths.size() > 1) listener.hear(Notice::Note, "running both models to compare them");
      result.check = prove_fold(original, folded, result.record.plan.sites, open, listener);
    }
    write_adapters(result, request);  // the model gets its name last: with its adapters or not at all
  });
  return result;
}

FolderChangeReport undo_fold(const fs::path& given, const fs::path& out, Weights untouched, NoticeListener& listener) {
  const fs::path folder = read_config(given).folder;
  const std::optional<Json> record = read_fold_record(folder);
  if (!record) fail(quoted(given.string()) + ": is not folded (no " + kFoldRecord + ")");
  std::vector<TensorFold> tensors =
      while_doing(quoted((folder / kFoldRecord).string()), [&] { return folded_tensors(*record); });
  while_doing(quoted(given.string()), [&] { check_takes_back(Checkpoint::open(folder), *record, tensors); });
  for (TensorFold& t : tensors)
    for (int& e : t.exponents) e = -e;
  return write_folder_change({folder, out, std::move(tensors), "", Subnormals::KeepExact, untouched, {}, &listener},
                             [&](const fs::path& written) { check_is_original(written, *record); });
}

}  // namespace kvcal
