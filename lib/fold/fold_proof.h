// The proof of a fold: both checkpoints compute the same bits.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "calibrate/listener.h"
#include "calibrate/opened_model.h"
#include "fold/fold_plan.h"
#include "ops/ops.h"

namespace kvcal {

using OpenPrecision = std::function<std::unique_ptr<Ops>(Precision)>;

/// How much was compared.
struct FoldProof {
  int64_t n_tokens = 0;  // in each precision
  int64_t n_logits = 0;  // in all precisions
  int64_t n_rows = 0;    // of caches: keys, values or latent rows, equal after their powers of two
};

/// Runs a few sequences of drawn token ids through both, in bf16 and f32, as one sweep for the listener. Throws Error
/// naming the first place where logits differ in a bit, or a cached value is not the original's times its power of two.
FoldProof prove_fold(const OpenedModel& original, const OpenedModel& folded, const std::vector<FoldedSite>& sites,
                     const OpenPrecision& open, CalibrationListener& listener);

}  // namespace kvcal
