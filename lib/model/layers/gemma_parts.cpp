#include "model/layers/gemma_parts.h"

#include <cmath>

#include "base/error.h"
#include "model/rope.h"
#include "tensor/dtype.h"

namespace kvcal {

float read_cap(const Json& config, const char* key, double fallback) {
  if (!config.contains(key)) return static_cast<float>(fallback);
  if (config[key].is_null()) return 0;
  const float cap = static_cast<float>(get_number(config, key));
  if (!(cap > 0) || !std::isfinite(cap)) fail(std::string(key) + " is not a positive number");
  return cap;
}

float in_activation_type(const WeightLoader& loader, float x) {
  return loader.precision() == Precision::BF16 ? round_to_bf16(x) : x;
}

Owned load_f32_gain(WeightLoader& loader, const WeightBinder& w, const std::string& name, int64_t n) {
  return loader.load_f32(w(name + ".weight", {n}));
}

float first_value(const Tensor& t) {
  float x = 0;
  convert_to_float(t.dtype, t.data, &x, 1);
  return x;
}

int64_t read_optional_size(const Json& config, const char* key, int64_t fallback) {
  const int64_t n = get_int_or(config, key, fallback);
  if (n < 0 || n >= int64_t{1} << 31) fail(std::string(key) + " is " + std::to_string(n) + ", which is out of range");
  return n;
}

RopeSpec read_rope_by_kind(const Json& text, int64_t head_dim, bool sliding) {
  const RopeDefaults defaults = {sliding ? 1e4 : 1e6};
  if (const auto of_kind = rope_config_of_kind(text, sliding ? "sliding_attention" : "full_attention"))
    return read_rope(*of_kind, head_dim, defaults);
  if (!sliding) return read_rope(text, head_dim, defaults);
  const Json local = {{"rope_theta", get_number_or(text, "rope_local_base_freq", defaults.theta)}};
  return read_rope(local, head_dim, defaults);
}

void refuse_bidirectional(const Json& config) {
  const Json* given = find_member(config, "use_bidirectional_attention");
  if (!given || *given == false || *given == "vision") return;  // "vision": among the tokens of an image only
  fail("use_bidirectional_attention is " + given->dump() +
       ": every token attends to all others, so there is no KV cache");
}

}  // namespace kvcal
