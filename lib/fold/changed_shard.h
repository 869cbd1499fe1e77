// A shard with some of its tensors multiplied by powers of two: the same header, every other byte as it was.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "fold/tensor_fold.h"

namespace kvcal {

/// Those of the folds whose tensors the shard holds.
std::vector<TensorFold> folds_in(const SafetensorsFile& shard, const std::vector<TensorFold>& folds);

/// Copies the shard piece by piece, in constant memory; the target appears when it is complete. Throws Error naming a
/// tensor that is not of the record's size or does not take its powers exactly: disk full, not readable.
void write_changed(const SafetensorsFile& shard, const std::vector<TensorFold>& folds, const std::filesystem::path& to,
                   Subnormals subnormals);

}  // namespace kvcal
