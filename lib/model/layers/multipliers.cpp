#include "model/layers/multipliers.h"

namespace kvcal {
namespace {

double read_multiplier(const Json& text, const char* key) {
  const double m = get_number_or(text, key, 1);
  constexpr double kMost = 1e30;  // it and its inverse are floats
  if (!(m > 1 / kMost && m < kMost))
    fail(std::string(key) + " is " + std::to_string(m) + ", expected a positive number");
  return m;
}

}  // namespace

Multipliers read_multipliers(const Json& text) {
  Multipliers m;
  m.embedding = static_cast<float>(read_multiplier(text, "embedding_multiplier"));
  m.attention = read_multiplier(text, "attention_multiplier");
  m.residual = static_cast<float>(read_multiplier(text, "residual_multiplier"));
  m.logits = static_cast<float>(1 / read_multiplier(text, "logits_scaling"));
  return m;
}

}  // namespace kvcal
