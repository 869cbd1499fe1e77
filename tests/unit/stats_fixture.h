// A small model whose keys, values and queries are functions of where they stand, so that a run can be cut into batches
// in any way and still means the same numbers.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "stats/observer.h"

namespace kvcal::stats_test {

/// One value of a run.
struct Spot {
  int cache = 0;
  CacheSite site = CacheSite::Key;
  int64_t sequence = 0, position = 0, head = 0, channel = 0;
};

using Values = std::function<float(const Spot&)>;

/// Random values over 24 octaves, both signs, with zeros of both signs, subnormals of bf16 and many equal magnitudes.
float mixed_value(const Spot& spot);

/// Two caches (layers 1 and 3): 4 query heads, 2 key heads; the first pairs channels neox-wise, the second gptj-wise.
ModelSpec small_spec();

/// One MLA cache (layer 2): 4 query heads, rows of 16 latent and 8 rope channels.
ModelSpec latent_spec();

/// Three prompts of 300, 5 and 70 tokens, of several kinds: pass 1 each alone (sequences 0, 1, 2), pass 2 packed as b+c
/// and a (3, 4).
ObservationPlan small_plan();

struct RunOptions {
  int64_t chunk = 1 << 20;  // most rows to a batch; sequences are cut at multiples of it
  int threads = 1;
  bool reversed = false;  // sequences last to first
  DType dtype = DType::BF16;
};

/// All tokens of the plan, cut and ordered as the options say.
std::vector<Batch> batches_of(const ObservationPlan& plan, const RunOptions& options);

/// The tensor that the model would show for a batch. Values are rounded to bf16 unless the dtype is F32.
Storage tensor_of(const ModelSpec& spec, int cache, CacheSite site, const Batch& batch, const Values& values,
                  DType dtype);

/// The rows [latent | rope part] of an MLA cache.
Storage rows_of(const ModelSpec& spec, int cache, const Batch& batch, const Values& values, DType dtype);

/// Shows a batch's keys, values (or rows) and queries of one cache.
void show(Observer& observer, const ModelSpec& spec, int cache, const Batch& batch, const Values& values,
          DType dtype = DType::BF16);

/// A whole run.
Statistics observe_run(const ModelSpec& spec, const ObservationPlan& plan, const Values& values,
                       const RunOptions& options = {});

RunRecord small_record();

/// The plan's segments of some sequences only.
ObservationPlan part_of(ObservationPlan plan, const std::vector<int64_t>& sequences);

/// Message of the kvcal::Error that f throws, "" when it throws none.
std::string message_of(const std::function<void()>& f);

/// A path that no other test process uses; removed with what is there at the end.
class TemporaryPath {
 public:
  TemporaryPath();
  ~TemporaryPath();
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  operator const std::filesystem::path&() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What an error message says after its path, which it must begin with.
std::string without_path(const std::string& message, const std::filesystem::path& path);

/// The bytes of a statistics file.
std::string file_bytes(const Statistics& statistics);

/// A file that was edited, with the digest of what it holds now.
std::string sealed_again(std::string bytes);

}  // namespace kvcal::stats_test
