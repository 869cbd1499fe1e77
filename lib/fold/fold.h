// The main line of a fold: from a checkpoint and its statistics to a checkpoint that computes the same and whose cache
// needs no scales.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "fold/fold_folder.h"
#include "fold/fold_proof.h"
#include "fold/fold_record.h"

namespace kvcal {

struct FoldRequest {
  std::filesystem::path model, statistics, out;  // out: not read with plan_only
  std::vector<std::filesystem::path> adapters;   // LoRA adapters of the model, to be written beside `out`
  FoldOptions options;
  bool plan_only = false;
  bool check = true;
  Weights untouched = Weights::Link;
  std::string tool_version;
};

/// An adapter that fits the folded checkpoint, and where it is.
struct FoldedAdapter {
  std::filesystem::path source, out;  // "OUT-NAME"
  std::vector<TensorFold> tensors;
};

struct FoldResult {
  FoldRecord record;
  FolderChangeReport written;      // empty where nothing was
  std::optional<FoldProof> check;  // where it was written and checked
  TouchedShards touched;
  std::vector<FoldedAdapter> adapters;

  bool folds() const { return !record.plan.tensors.empty(); }
};

/// Plans, writes beside the name, runs both checkpoints, and only then gives the result its name. Nothing is written
/// where nothing is to be folded. Throws Error for a checkpoint that is folded already or has KV scales of its own, and
/// as plan_fold(), write_folder_change(), prove_fold().
FoldResult fold(const FoldRequest& request, const OpenPrecision& open, CalibrationListener& listener);

/// Takes a fold back into a folder of its own: the original's weights, byte for byte. Throws Error when `folded` has no
/// record of one.
FolderChangeReport undo_fold(const std::filesystem::path& folded, const std::filesystem::path& out, Weights untouched,
                             NoticeListener& listener);

}  // namespace kvcal
