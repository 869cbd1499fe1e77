#include "kernels/attention_library.h"

namespace kvcal::cuda {

std::string str(const AttentionPlan& p) {
  const auto number = [](int64_t n) { return std::to_string(n); };
  return number(p.n_sequences) + (p.continued ? " continued" : "") + " sequences of at most " + number(p.most_queries) +
         " queries and " + number(p.most_keys) + " keys, " + number(p.n_heads) + " heads over " + number(p.n_kv_heads) +
         ", dimensions " + number(p.key_dim) + " and " + number(p.value_dim) + ", window " + number(p.window);
}

}  // namespace kvcal::cuda
