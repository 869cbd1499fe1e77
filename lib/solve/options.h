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

/// From where a figure asks for a check, and from where the layer is to be kept in 16 bits.
struct FigureLimits {
  double check = 0, keep16 = 0;
  bool operator==(const FigureLimits&) const = default;
};

/// Where assessments turn (solve/assessment.h).
struct AssessmentLimits {
  /// Measured. Mean KL of the attention weights of a layer's worst head, in nats. A small trained model has 0.005 to
  /// 0.018 in most of its layers, and no layer alone moves its answers by more than a KL of 0.0005; 0.05 moves 15 % of
  /// the weight.
  FigureLimits kl = {0.012, 0.05};
  /// Relative change of what a layer adds to the residual stream; E4M3's own rounding of one value is 0.0265.
  FigureLimits rel = {0.08, 0.30};
  /// Predicted. Noise of attention logits in nats. It overrates what the softmax sees, since sharp heads do not feel
  /// it: real heads have a median of 0.2.
  FigureLimits noise = {0.25, 1};
  /// Share of tokens whose row is rounded to a few of its bits or to zero.
  FigureLimits flushed_tokens = {0.02, 0.25};
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
