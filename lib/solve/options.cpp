#include "solve/options.h"

#include <cmath>

#include "base/enum_names.h"
#include "base/error.h"
#include "base/number_text.h"
#include "solve/format.h"
#include "solve/policies.h"

namespace kvcal {
namespace {

// Scales a million times too large leave nothing of any format (fp8_e4m3 loses its first bit at 2^14).
constexpr double kMaxHeadroom = 0x1p20;

constexpr EnumNames<Granularity, 3> kGranularities{"granularity", {"tensor", "head", "channel"}};

std::string text_of(double value) { return std::isfinite(value) ? shortest_double(value) : std::to_string(value); }

void check_limit(const char* name, double value, double largest) {
  if (!(value >= 0 && value <= largest))
    fail("limit " + std::string(name) + " is " + text_of(value) + ", expected 0 to " + text_of(largest));
}

/// Channels have moments and a largest magnitude, no histogram, and what their rounding does is known for a uniform
/// grid.
void check_per_channel(const SolveOptions& options) {
  if (options.granularity != Granularity::Channel) return;
  if (options.format != "int8")
    fail("granularity channel is for int8, the format is " + options.format +
         ": FP8 has the same relative error at any " + "scale; use --granularity head, or --dtype int8");
  if (!policy_of(options).uses_headroom)
    fail("granularity channel is for the policies absmax and pow2: " + *options.policy +
         " needs a histogram, and channels have none");
}

}  // namespace

std::string_view name_of(Granularity granularity) { return kGranularities[granularity]; }
Granularity granularity_from_name(std::string_view name) { return kGranularities.find(name); }

void check(const SolveOptions& options) {
  policy_of(options);  // knows the format as well
  check_per_channel(options);
  const double headroom = headroom_of(options);
  if (!(headroom >= 1 && headroom <= kMaxHeadroom))
    fail("headroom is " + text_of(headroom) + ", expected 1 to 1048576: below 1 the largest values would be clipped");
  if (!(options.percentile > 0 && options.percentile <= 100))
    fail("percentile is " + text_of(options.percentile) + ", expected above 0 and at most 100");
  if (options.max_model_len < 0)
    fail("max-model-len is " + std::to_string(options.max_model_len) + ", expected a number of tokens");
  check_limit("kl", options.limits.kl, 1e6);
  check_limit("rel", options.limits.rel, 1e6);
  check_limit("noise", options.limits.noise, 1e6);
  check_limit("flushed tokens", options.limits.flushed_tokens, 1);
  check_limit("growth", options.limits.growth, 1e6);
  if (const double d = options.limits.dependence; !(d >= 1 && d <= 1e6))
    fail("limit dependence is " + text_of(d) + ", expected 1 to 1e+06: a prompt's removal raises no absmax");
}

double headroom_of(const SolveOptions& options) {
  return options.headroom.value_or(number_format(options.format).default_headroom);
}

}  // namespace kvcal
