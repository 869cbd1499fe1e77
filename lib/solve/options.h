// What a user may choose when scales are solved. All of it is written into the artifact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvcal {

/// One scale per site of a layer, or one per head of it.
enum class Granularity : uint8_t { Tensor, Head };
std::string_view name_of(Granularity granularity);  // "tensor", "head"
Granularity granularity_from_name(std::string_view name);

/// Where verdicts turn.
struct VerdictLimits {
  /// Share of a head's values beyond the largest storable one. One in a million: a few clipped attention sinks are
  /// enough to ruin a model, and one value in 10^6 is what the statistics resolve.
  double clipped = 1e-6;
  /// Share of a head's (value: also of a channel's) energy that is clipped or subnormal. Where a tenth of a Gaussian's
  /// energy is subnormal its error is 3.3 % instead of 2.65 %, where a tenth is clipped about 5 %: not "as good"
  /// beyond.
  double lost = 0.1;
  /// Noise of attention logits in nats (upper bound). Ordinary heads have 0.03; one key channel near 100 gives 0.2.
  double noise = 0.25;
  /// Share of the squared noise from which one channel counts as its cause.
  double dominating = 0.5;
  /// Relative growth of an absmax, above which it had not settled. The largest of a million normal numbers grows by
  /// more than 5 % in the last quarter of the data at one site in fourteen, by more than 20 % at one in several
  /// hundred: a model has hundreds of sites, and headroom 2 provides for 100 %.
  double growth = 0.2;
  /// How far the removal of one prompt may lower an absmax, as a factor; solve/dependence.h says why 2.
  double dependence = 2;
  bool operator==(const VerdictLimits&) const = default;
};

struct SolveOptions {
  std::string policy = "absmax";
  std::string format = "fp8_e4m3";
  Granularity granularity = Granularity::Tensor;
  std::optional<double> headroom;  // absmax, pow2; default: the format's
  double percentile = 99.99;       // percentile only
  int64_t max_model_len = 0;       // tokens the server will allow; 0 = the model's own limit
  VerdictLimits limits;
};

/// Throws Error naming the option: unknown names (with the nearest), headroom below 1 or above 2^20, a percentile
/// outside (0, 100], limits that are negative or not finite.
void check(const SolveOptions& options);

/// The headroom in force.
double headroom_of(const SolveOptions& options);

}  // namespace kvcal
