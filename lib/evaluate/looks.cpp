#include "evaluate/looks.h"

#include <numeric>
#include <utility>

#include "base/shuffled.h"

namespace kvcal {

std::vector<int64_t> looks_at(int64_t n_prompts) {
  std::vector<int64_t> looks;
  for (int64_t n = kFirstLook; n * 3 / 2 < n_prompts; n *= 2) looks.push_back(n);  // the last adds no small rest
  looks.push_back(n_prompts);
  return looks;
}

std::vector<size_t> drawn_order(size_t n_prompts) {
  std::vector<size_t> order(n_prompts);
  std::iota(order.begin(), order.end(), size_t{0});
  return shuffled(std::move(order), 0);
}

}  // namespace kvcal
