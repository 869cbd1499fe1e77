#include "bench/model_work.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"

namespace kvcal::bench {
namespace {

/// What the last layer runs: the projections that its tap needs.
bool makes_heads(const std::string& name) {
  constexpr const char* kProjections[] = {"q_proj.",   "k_proj.",   "v_proj.",
                                          "q_a_proj.", "q_b_proj.", "kv_a_proj_with_mqa."};
  return std::any_of(std::begin(kProjections), std::end(kProjections),
                     [&](const char* part) { return name.find(part) != std::string::npos; });
}

int64_t number_of_experts(const std::vector<std::string>& names) {
  constexpr std::string_view kPart = ".experts.";
  int64_t most = 0;
  for (const std::string& name : names)
    if (const size_t at = name.find(kPart); at != std::string::npos)
      most = std::max<int64_t>(most, 1 + std::stoll(name.substr(at + kPart.size())));
  return most;
}

/// Two products, each with the keys that a token sees on average: a window bounds them.
double attention_flops(double per_pair, int64_t window, int64_t length) {
  const int64_t seen = window > 0 ? std::min(window, length) : length;
  const auto w = static_cast<double>(seen), n = static_cast<double>(length);
  return per_pair * (w * (w + 1) / 2 + (n - w) * w) / n;
}

double flops_per_pair(const KvLayout& c, const Json& config) {
  const double widths = c.is_mla()
                            ? get_number_or(config, "qk_nope_head_dim", 0) +
                                  get_number_or(config, "qk_rope_head_dim", 0) + get_number_or(config, "v_head_dim", 0)
                            : static_cast<double>(c.head_dim_k + c.head_dim_v);
  return 2.0 * static_cast<double>(c.n_heads) * widths;
}

/// The chunked form, chunks of 64: three products with the state, five inside the chunk, an inverse.
double delta_net_flops(const Json& config) {
  const double d = get_number_or(config, "linear_key_head_dim", 128),
               heads = get_number_or(config, "linear_num_value_heads", 32);
  return heads * (6 * d * d + 10 * 64 * d + 3000);
}

}  // namespace

std::vector<ModelProduct> products_of(const OpenedModel& model) {
  const std::vector<std::string> names = model.checkpoint.names();
  const int64_t n_experts = number_of_experts(names);
  const double share = n_experts == 0 ? 1.0
                                      : static_cast<double>(get_int(model.checkpoint.config(), "num_experts_per_tok")) /
                                            static_cast<double>(n_experts);
  const std::string last = ".layers." + std::to_string(model.spec().last_counted_layer()) + ".";
  std::map<std::pair<int64_t, int64_t>, double> by_shape;
  for (const std::string& name : names) {
    const Shape& shape = model.checkpoint.tensor(name).shape;
    if (name.find(".layers.") == std::string::npos || shape.rank() != 2 || !name.ends_with(".weight")) continue;
    if (name.find(last) != std::string::npos && !makes_heads(name)) continue;
    by_shape[{shape[0], shape[1]}] += name.find(".experts.") == std::string::npos ? 1.0 : share;
  }
  std::vector<ModelProduct> products;
  for (const auto& [shape, per_token] : by_shape) products.push_back({shape.first, shape.second, per_token});
  if (products.empty()) fail("the model has no matrix products that are stored one by one");
  return products;
}

double mixing_flops(const OpenedModel& model, int64_t length) {
  const ModelSpec& spec = model.spec();
  const Json& config = model.checkpoint.config();
  double flops = 0;
  for (const LayerSpec& l : spec.layers) {
    const int cache = l.cache >= 0 ? l.cache : l.shares_cache;
    if (cache >= 0 && l.index != spec.last_counted_layer()) {
      const KvLayout& c = spec.caches[static_cast<size_t>(cache)];
      flops += attention_flops(flops_per_pair(c, config), c.window, length);
    }
    if (l.kind == LayerKind::GatedDeltaNet && l.index < spec.last_counted_layer()) flops += delta_net_flops(config);
  }
  return flops;
}

}  // namespace kvcal::bench
