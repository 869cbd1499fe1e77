// An order drawn at random that is the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/portable_math.h"

namespace kvcal {

template <class T>
std::vector<T> shuffled(std::vector<T> order, uint64_t seed) {
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[next_random(seed) % left]);
  return order;
}

}  // namespace kvcal
