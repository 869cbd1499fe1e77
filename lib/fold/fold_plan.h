// What a fold changes, decided before anything is written.
#pragma once

#include <string>
#include <vector>

#include "calibrate/opened_model.h"
#include "fold/placement.h"
#include "fold/weight_fold.h"
#include "stats/run_record.h"

namespace kvcal {

struct FoldOptions {
  Balance balance = Balance::Head;
  std::string format = "fp8_e4m3";  // number_format()
  bool force = false;               // sites that are fine at 1.0 too
};

/// What becomes of one site of one layer.
struct FoldedSite {
  int layer = 0;
  CacheSite site = CacheSite::Key;
  int64_t n_heads = 1;              // of `exponents`
  Balance balance = Balance::Head;  // what has an exponent of its own; coarser than asked for where weights demand it
  std::vector<int> exponents;       // of each channel [heads · width]: values are multiplied by 2^e; all 0: not folded
  bool left_to_scales = false;      // its scale matters, and weights cannot take it, or not well enough
  std::string why;                  // it is not folded, or coarser than asked for; else ""

  bool is_folded() const;
};

struct FoldPlan {
  std::vector<FoldedSite> sites;      // by layer, then site
  std::vector<TensorFold> tensors;    // by name, then axis; one for each
  std::vector<WeightFactors> layers;  // linear layers that they store: what adapters of these must follow
};

/// Equal inputs give equal plans. Reads every tensor that may change, to see that it takes its powers exactly. Throws
/// Error when the statistics are from another model or of a shard, and as solve().
FoldPlan plan_fold(const OpenedModel& model, const Statistics& statistics, const FoldOptions& options);

}  // namespace kvcal
