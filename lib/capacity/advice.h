// Whether an FP8 cache pays off on this machine: the question before any calibration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capacity/fit.h"

namespace kvcal {

/// What is to be served; what is not given is open.
struct Load {
  std::optional<int64_t> concurrency, context;
};

enum class Advice : uint8_t {
  WeightsDoNotFit,  // there is no room for any cache
  KeepBf16,         // FP8 buys nothing: BF16 holds the load, or more sequences than servers schedule
  BuysLittle,       // what FP8 halves is a small part of what a sequence keeps
  UseFp8,           // FP8 holds the load and BF16 does not, or clearly more sequences
  LoadDoesNotFit,   // not even with FP8
};
std::string_view name_of(Advice advice);  // "weights_do_not_fit", "keep_bf16", ...

struct Recommendation {
  Advice advice = Advice::UseFp8;
  std::string text;                  // a sentence with the figures
  std::vector<std::string> remarks;  // what shapes the answer: recurrent state, windows, copies, weights
};

/// The context that a recommendation is about: the load's, or the longest that the model takes.
int64_t context_of(const ModelSpec& spec, const Load& load);

/// Throws Error for a load of nothing, or of a longer context than the model takes.
Recommendation recommend(const ModelSpec& spec, const Capacity& capacity, const Load& load);

/// How many times as many sequences of that length a given room holds in FP8 as in BF16.
double gain_of_fp8(const Capacity& capacity, int64_t context);

}  // namespace kvcal
