// Which files of a model folder hold its weights.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvcal {

struct WeightFiles {
  std::vector<std::filesystem::path> shards;  // sorted by name; every one exists
  /// tensor name -> position in shards; empty without an index
  std::map<std::string, size_t, std::less<>> index;
  std::filesystem::path index_path;  // empty without an index
};

/// Finds, in this order: model.safetensors.index.json (or the only other *.safetensors.index.json) with the shards it
/// names, model.safetensors, the only other *.safetensors. An index none of whose files exist gives way to
/// model.safetensors. Throws Error for a missing shard, names that lead out of the folder, and for folders with weights
/// in other formats, saying what to do.
WeightFiles find_weight_files(const std::filesystem::path& folder);

}  // namespace kvcal
