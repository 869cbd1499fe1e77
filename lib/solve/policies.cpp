#include "solve/policies.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/portable_math.h"

namespace kvcal {
namespace {

constexpr std::array kPolicies = {
    PolicyEntry{"absmax", absmax_scale, true, false, "largest magnitude with headroom; nothing measured is clipped"},
    PolicyEntry{"pow2", pow2_scale, true, true,
                "1.0 unless another lowers the error by a tenth, else the power of two nearest to it that clips and "
                "loses nothing"},
    PolicyEntry{"percentile", percentile_scale, false, false, "clips what lies above a quantile of the magnitudes"},
    PolicyEntry{"mse", mse_scale, false, false, "smallest squared error; for int8"},
    PolicyEntry{"kl", kl_scale, false, false, "smallest divergence of the distribution; for int8"},
};

// 8 steps per octave, 4 octaves to each side.
constexpr int kStepsPerOctave = 8;
constexpr int kOctaves = 4;
// Costs this close are equal: sums of rounding errors carry about that much noise from the values at hand.
constexpr double kTie = 1e-6;

}  // namespace

std::span<const PolicyEntry> policies() { return kPolicies; }

const PolicyEntry& policy_named(std::string_view name) {
  const auto* const found = std::ranges::find(kPolicies, name, &PolicyEntry::name);
  if (found == kPolicies.end()) fail_unknown("policy", name, policy_names());
  return *found;
}

bool seeks_one(std::string_view policy) {
  return std::ranges::any_of(kPolicies, [&](const PolicyEntry& p) { return p.seeks_one && p.name == policy; });
}

const PolicyEntry& policy_of(const SolveOptions& options, const NumberFormat& format) {
  return policy_named(options.policy ? std::string_view(*options.policy) : format.default_policy);
}

const PolicyEntry& policy_of(const SolveOptions& options) { return policy_of(options, number_format(options.format)); }

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const PolicyEntry& p : kPolicies) names.emplace_back(p.name);
  return names;
}

std::vector<double> scale_candidates(const PolicyInput& in) {
  std::array<double, kStepsPerOctave> fractions{};
  for (int i = 0; i < kStepsPerOctave; ++i)
    fractions[static_cast<size_t>(i)] = i == 0 ? 1.0 : portable_pow(2.0, static_cast<double>(i) / kStepsPerOctave);
  std::vector<double> candidates;
  for (int octave = -kOctaves; octave < kOctaves; ++octave)
    for (const double fraction : fractions)
      candidates.push_back(std::ldexp(in.range / in.format.max, octave) * fraction);
  candidates.push_back(std::ldexp(in.range / in.format.max, kOctaves));
  return candidates;
}

double cheapest(std::span<const double> candidates, std::span<const double> costs) {
  const double least = *std::min_element(costs.begin(), costs.end());
  double best = candidates.front();
  for (size_t i = 0; i < candidates.size(); ++i)
    if (costs[i] <= least * (1 + kTie)) best = candidates[i];
  return best;
}

}  // namespace kvcal
