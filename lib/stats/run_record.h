// What a statistics file knows beside the numbers: enough that `solve` reproduces the artifact byte for byte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stats/calibration_info.h"
#include "stats/model_info.h"
#include "stats/state_statistics.h"
#include "stats/statistics.h"

namespace kvcal {

/// One of the parts that a sequence plan was cut into.
struct Shard {
  int64_t index = 1, count = 1;  // index from 1
  bool operator==(const Shard&) const = default;
};

/// Of statistics that a tensor-parallel rank has recorded: layouts and tables are those of its heads.
struct HeadShare {
  int64_t rank = 0, size = 1;
  std::vector<int64_t> n_kv_heads;  // of the whole model, by cache; ranks beyond their number share heads
  bool operator==(const HeadShare&) const = default;
};

/// Tags of prompt records: indices in RunRecord::prompt_ids by tag, ascending, none empty.
using PromptTags = std::map<std::string, std::vector<uint64_t>>;

struct RunRecord {
  // The first three are none where runs were merged that differ in them.
  std::optional<ModelInfo> model;
  std::optional<std::vector<LayerInfo>> layers_without_kv;
  std::optional<CalibrationInfo> calibration;
  std::optional<SanityInfo> sanity;  // none: not run
  std::string plan_sha256;
  std::optional<Shard> shard;      // none: the whole plan; calibration describes the whole plan either way
  std::optional<HeadShare> heads;  // none: all heads
  std::string tokenizer_sha256;    // of tokenizer.json; "" without one
  int n_passes = 0;
  std::vector<std::string> prompt_ids;  // sorted
  PromptTags tags;
};

struct Statistics {
  RunRecord run;
  std::vector<CacheStatistics> caches;  // by cache
  std::vector<StateStatistics> states;  // by layer; empty: there are none, or whoever measured did not count them
};

}  // namespace kvcal
