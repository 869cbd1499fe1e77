// What a user may choose when scales are solved. All of it is written into the artifact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvcal {

/// One scale per site of a layer, one per head of it, or one per channel of keys and values (int8).
enum class Granularity : uint8_t { Tensor, Head, Channel };
std::string_view name_of(Granularity granularity);  // "tensor", "head", "channel"
Granularity granularity_from_name(std::string_view name);

/// Above which figure a layer is to be kept in 16 bits (solve/assessment.h). docs/assessment.md has their origin.
struct AssessmentLimits {
  double kl = 0.025;            // measured: mean KL of the attention weights of a layer's worst head, in nats
  double rel = 0.125;           // relative change of what a layer adds to the residual stream
  double noise = 0.3;           // predicted: noise of attention logits, in nats
  double flushed_tokens = 0.1;  // share of tokens whose row is rounded to a few of its bits or to zero
  /// Relative growth of an absmax, above which it had not settled. The largest of a million normal numbers grows by
  /// more than 5 % in the last quarter of the data at one site in fourteen, by more than 20 % at one in several
  /// hundred: a model has hundreds of sites, and headroom 2 provides for 100 %.
  double growth = 0.2;
  /// How far the removal of one prompt may lower an absmax, as a factor; solve/dependence.h says why 2.
  double dependence = 2;
  bool operator==(const AssessmentLimits&) const = default;
};

struct SolveOptions {
  std::optional<std::string> policy;  // default: the format's
  std::string format = "fp8_e4m3";
  Granularity granularity = Granularity::Tensor;
  std::optional<double> headroom;  // absmax, pow2; default: the format's
  double percentile = 99.99;       // percentile only
  int64_t max_model_len = 0;       // tokens the server will allow; 0 = the model's own limit
  AssessmentLimits limits;
};

/// Throws Error naming the option: unknown names (with the nearest), headroom below 1 or above 2^20, a percentile
/// outside (0, 100], limits that are negative or not finite, scales per channel of another format than int8 or by a
/// policy that needs a histogram of each.
void check(const SolveOptions& options);

/// The headroom in force.
double headroom_of(const SolveOptions& options);

}  // namespace kvcal
