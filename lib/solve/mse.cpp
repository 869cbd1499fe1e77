#include "solve/policies.h"

namespace kvcal {

double mse_scale(const PolicyInput& in) {
  const std::vector<double> candidates = scale_candidates(in);
  std::vector<double> costs;
  for (const double scale : candidates) {
    double sum = 0;
    for (const auto& [code, count] : in.histogram.counts) {
      const double x = magnitude_of(code);
      const double difference = round_trip(in.format, x, scale) - x;
      sum += static_cast<double>(count) * difference * difference;
    }
    costs.push_back(sum);
  }
  return cheapest(candidates, costs);
}

}  // namespace kvcal
