// Folds of golden models: measured on drawn token ids, folded into a scratch folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "arch/backend.h"
#include "arch/golden.h"
#include "base/read_file.h"
#include "calibrate/calibrate.h"
#include "fold/fold.h"
#include "model/architecture.h"
#include "stats/statistics_file.h"

namespace kvcal {

namespace fs = std::filesystem;

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "kvcal-fold-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no scratch folder");
    path_ = name;
  }
  ~ScratchFolder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Three prompts of ids below n_ids, of 40, 9 and 65 tokens.
inline PromptSet drawn_prompts(int n_ids = 64) {
  PromptSet set;
  for (const int length : {40, 9, 65}) {
    PromptRecord record;
    record.id = record.canonical = std::to_string(length);
    record.kind = PromptKind::Ids;
    for (int i = 0; i < length; ++i) record.input_ids.push_back((i * i * 7 + 5 * i + length) % n_ids);
    set.records.push_back(record);
  }
  return set;
}

enum class Mtp : uint8_t { PassedOver, Measured };

inline Statistics measured(const fs::path& model, Mtp mtp = Mtp::PassedOver) {
  CalibrationOptions options;
  options.mtp = mtp == Mtp::Measured;
  options.extent = Extent::Statistics;
  options.sequences.passes = 1;
  options.sequences.sanity = false;
  CalibrationListener silent;
  const int64_t vocab = parse_model(read_json_file(model / "config.json", {.allow_non_finite = true}))->spec().vocab;
  const int n_ids = static_cast<int>(std::min<int64_t>(64, vocab));
  return calibrate({.model = model,
                    .prompts = [n_ids](bool) { return drawn_prompts(n_ids); },
                    .open_devices = [] { return backend(Precision::BF16); }},
                   options, silent)
      .statistics;
}

/// The statistics of a model as a file in `scratch`.
inline fs::path statistics_of(const fs::path& model, const ScratchFolder& scratch, Mtp mtp = Mtp::PassedOver) {
  fs::path path = scratch / "run.kvstats";
  write_statistics(path, measured(model, mtp), Existing::Replace);
  return path;
}

inline FoldRequest request_for(const fs::path& model, const ScratchFolder& scratch, Balance balance,
                               Mtp mtp = Mtp::PassedOver) {
  FoldRequest request{model, statistics_of(model, scratch, mtp), scratch / "folded", {}, {}, false, true, Weights::Copy,
                      "test"};
  request.options.balance = balance;
  request.options.force = true;
  return request;
}

inline FoldResult folded(const FoldRequest& request) {
  CalibrationListener silent;
  return fold(
      request, [](Precision p) { return backend(p); }, silent);
}

inline FolderChangeReport unfolded(const fs::path& model, const fs::path& out) {
  CalibrationListener silent;
  return undo_fold(model, out, Weights::Copy, silent);
}

/// A file's bytes.
inline std::string bytes_of(const fs::path& path) { return read_file(path, size_t{1} << 30); }

}  // namespace kvcal
