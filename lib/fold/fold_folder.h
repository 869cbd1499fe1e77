// A copy of a model folder whose weights are multiplied by powers of two: touched shards are rewritten, other weights
// linked, everything else copied.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/notices.h"
#include "export/overlay.h"
#include "fold/tensor_fold.h"

namespace kvcal {

struct FolderChange {
  std::filesystem::path source, out;
  std::vector<TensorFold> tensors;
  std::string record;  // text of kvcal-fold.json in the result; "": the source's is left out
  Subnormals subnormals = Subnormals::Refuse;
  Weights untouched = Weights::Link;
  std::vector<std::filesystem::path> shards{};  // of weights in `source`; none: those of a checkpoint
  NoticeListener* listener = nullptr;           // hears of each shard where there are several
};

struct FolderChangeReport {
  OverlayReport files;
  std::vector<std::string> shards;  // that were rewritten, by name
  size_t n_resumed = 0;             // of them, those that an interrupted run had written
};

/// Shards that hold a tensor of the folds, and their bytes.
struct TouchedShards {
  std::vector<std::filesystem::path> paths;
  uint64_t bytes = 0;
};
TouchedShards touched_shards(const std::vector<std::filesystem::path>& shards, const std::vector<TensorFold>& tensors);

/// Writes under a temporary name, calls `check` with that folder, and then gives it its name. Finished shards wait in
/// "OUT.kvcal-partial" until then, and a run of the same change goes on from there. Throws Error, and there is no
/// `out`: it exists, is inside the model or around it, disk full, no permission, what is there belongs to another
/// change or is in use, `check` throws.
FolderChangeReport write_folder_change(const FolderChange& change,
                                       const std::function<void(const std::filesystem::path&)>& check);

}  // namespace kvcal
