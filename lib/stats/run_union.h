// Statistics files of several machines as one: the shards of a plan, or runs over prompt sets that share no prompt.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "stats/run_record.h"

namespace kvcal {

/// Runs are added in any order, each under the name that messages call it by; the result does not depend on the order.
///
/// Shards of one plan, all of them and each once, give the bytes of the run over the whole plan. Whole runs (and
/// complete shards) of different plans give the statistics of one run over all prompts as far as pass 1 goes; later
/// passes pack prompts of one set only. Their calibration block says so: "merged": {"exact_passes": 1, "sets": [...]},
/// and its hashes are those of the sorted hashes of the sets.
class RunUnion {
 public:
  /// Throws Error for a run of another model, tokenizer, precision, processor class, program version, number of passes
  /// or maximum length than those before; for a shard or run that is there already, or cut differently.
  void add(const std::string& name, Statistics run);

  /// Throws Error when nothing was added, shards are missing (it names them), or two sets share a prompt.
  Statistics finish();

  size_t n_sets() const { return sets_.size(); }

 private:
  /// What was added of one plan.
  struct Set {
    std::string name;  // of the first file
    Statistics sum;
    CalibrationInfo calibration;
    std::optional<SanityInfo> sanity;
    int64_t count = 1;                      // shards of the plan; 1: a whole run
    std::map<int64_t, std::string> shards;  // file by shard
  };
  void add_to(Set& set, const std::string& name, Statistics run);
  void check_complete() const;

  RunRecord first_;  // what all must agree with, without its prompts
  std::string first_name_;
  std::map<std::string, Set> sets_;  // by plan hash
};

}  // namespace kvcal
