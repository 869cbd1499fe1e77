// The mark of a checkpoint into whose weights factors were folded (lib/fold), and what it says was multiplied.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvcal {

/// The record of a fold, beside the weights, and its member `format`.
constexpr const char* kFoldRecord = "kvcal-fold.json";
constexpr const char* kFoldFormat = "kvcal-fold";
constexpr const char* kAdapterFoldFormat = "kvcal-fold-adapter";  // of a LoRA adapter that was folded with its model
/// A run of each channel, in a model of 405 billion weights, is 115 MB and 18 million values.
constexpr JsonLimits kFoldRecordLimits = {
    .max_bytes = size_t{128} << 20, .max_depth = 16, .max_values = size_t{32} << 20};

/// Rows: element i belongs to row i / (elements / n). Columns: to column i % n. A tensor of one dimension has rows.
enum class Axis : uint8_t { Rows, Columns };

struct TensorFold {
  std::string name;
  Axis axis = Axis::Rows;
  std::vector<int> exponents;  // n of them: elements are multiplied by 2^exponent
  bool one_plus = false;       // 1 + element is multiplied instead

  bool operator==(const TensorFold&) const = default;
};

/// What a folded checkpoint is, for those who compare it with what was measured.
struct FoldMark {
  std::string original_fingerprint;  // of the weights before the fold
  size_t n_sites = 0, n_left = 0;    // n_left: still need a scale file
};

/// That of the folder; none when it has no such file. Throws Error when it is no such record.
std::optional<Json> read_fold_record(const std::filesystem::path& folder);

/// Throws Error naming a member that is missing or of another type.
FoldMark fold_mark(const Json& record);

/// What was multiplied; `rows` and `columns` of the record written out. Throws Error where that makes no sense.
std::vector<TensorFold> folded_tensors(const Json& record);

}  // namespace kvcal
