// config.json, read as a model of every architecture: an Error, or a ModelSpec that later parts may index and multiply
// without asking again.
#include "checkpoint/config_file.h"
#include "checkpoint/quantization.h"
#include "fuzz/fuzzing.h"
#include "model/architecture.h"

namespace {

using namespace kvcal;

void check_spec(const ModelSpec& spec) {
  constexpr int64_t kMost = int64_t{1} << 40;
  fuzzing::require(spec.hidden > 0 && spec.hidden < kMost && spec.vocab > 0 && spec.vocab < kMost, "sizes are sane");
  fuzzing::require(spec.max_positions > 0, "there are positions");
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const LayerSpec& layer = spec.layers[i];
    fuzzing::require(layer.index == static_cast<int>(i), "layers are numbered");
    fuzzing::require(layer.cache >= -1 && layer.cache < static_cast<int>(spec.caches.size()), "a cache exists");
    fuzzing::require(layer.parameters >= 0 && layer.activations >= 0 && layer.state_bytes >= 0, "no size overflowed");
  }
  for (size_t i = 0; i < spec.caches.size(); ++i) {
    const KvLayout& c = spec.caches[i];
    fuzzing::require(c.cache == static_cast<int>(i), "caches are numbered");
    fuzzing::require(c.layer >= 0 && c.layer < static_cast<int>(spec.layers.size()), "a cache has an owner");
    fuzzing::require(c.n_kv_heads > 0 && c.n_heads >= c.n_kv_heads && c.n_heads % c.n_kv_heads == 0, "heads fit");
    fuzzing::require(c.head_dim_k > 0 && c.head_dim_v > 0 && c.n_heads < kMost / c.head_dim_k, "widths are sane");
    fuzzing::require(c.rotary_dim >= 0 && c.rotary_dim <= c.head_dim_k && c.rotary_dim % 2 == 0, "RoPE fits");
    fuzzing::require(c.softmax_scale > 0 && c.rope_magnitude > 0 && c.window >= 0, "scales are positive");
  }
  fuzzing::require(kv_bytes_per_token(spec, 2) >= 0, "the cache's size does not overflow");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Json config;
  const JsonLimits limits{.max_bytes = size_t{32} << 20, .max_depth = 64, .allow_non_finite = true};
  if (!fuzzing::accepts([&] {
        config = parse_json({reinterpret_cast<const char*>(data), size}, limits);
        if (!config.is_object()) fail("no object");
      }))
    return 0;
  fuzzing::accepts([&] { config_sha256(config); });
  fuzzing::accepts([&] { str(describe_quantization(config, "/nonexistent")); });
  fuzzing::accepts([&] { check_spec(parse_model(config)->spec()); });
  for (const Architecture& architecture : architectures()) {
    config["architectures"] = Json::array({std::string(architecture.name)});
    fuzzing::accepts([&] { check_spec(parse_model(config)->spec()); });
  }
  return 0;
}
