#include "model/model_spec.h"

#include <algorithm>

namespace kvcal {

std::string_view name_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::Attention:
      return "attention";
    case LayerKind::GatedDeltaNet:
      return "gated_delta_net";
    case LayerKind::KimiDeltaAttention:
      return "kimi_delta_attention";
    case LayerKind::LightningAttention:
      return "lightning_attention";
    case LayerKind::Mamba:
      return "mamba";
    case LayerKind::Mamba2:
      return "mamba2";
    case LayerKind::ShortConv:
      return "short_conv";
    case LayerKind::FeedForward:
      return "feed_forward";
  }
  return "";
}

std::string_view inspect_name_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::Attention:
      return "attention";
    case LayerKind::GatedDeltaNet:
    case LayerKind::KimiDeltaAttention:
    case LayerKind::LightningAttention:
      return "linear_attention";
    case LayerKind::Mamba:
    case LayerKind::Mamba2:
      return "mamba";
    case LayerKind::ShortConv:
      return "conv";
    case LayerKind::FeedForward:
      return "mlp";
  }
  return "";
}

std::string_view name_of(PairBound bound) {
  switch (bound) {
    case PairBound::None:
      return "none";
    case PairBound::Neox:
      return "neox";
    case PairBound::Gptj:
      return "gptj";
  }
  return "";
}

int ModelSpec::last_reader(int cache) const {
  int last = caches[static_cast<size_t>(cache)].layer;
  for (const LayerSpec& l : layers)
    if (l.shares_cache == cache) last = std::max(last, l.index);
  return last;
}

int ModelSpec::n_sharing(int cache) const {
  return static_cast<int>(
      std::count_if(layers.begin(), layers.end(), [&](const LayerSpec& l) { return l.shares_cache == cache; }));
}

std::vector<int> ModelSpec::readers_of(int cache) const {
  std::vector<int> readers = {caches[static_cast<size_t>(cache)].layer};
  for (const LayerSpec& l : layers)
    if (l.shares_cache == cache) readers.push_back(l.index);
  return readers;
}

int ModelSpec::last_taking_choices(int layer) const {
  int last = layer;
  for (const LayerSpec& l : layers)
    if (l.picker == layer) last = std::max(last, l.index);
  return last;
}

int ModelSpec::last_counted_layer() const {
  int last = caches.empty() ? -1 : caches.back().layer;
  for (const LayerSpec& l : layers)
    if (l.shares_cache >= 0 || l.has_long_state()) last = std::max(last, l.index);
  return last;
}

bool is_beside_prefix(std::string_view name) { return name.starts_with("mtp.") || name.starts_with("model.mtp."); }

std::string module_name(const std::string& prefix, const KvLayout& cache) {
  return is_beside_prefix(cache.name) ? cache.name : prefix + cache.name;
}

int64_t kv_bytes_per_token(const ModelSpec& spec, int element_bytes) {
  int64_t bytes = 0;
  for (const KvLayout& c : spec.caches)
    bytes += c.n_kv_heads * (c.head_dim_k + (c.is_mla() ? 0 : c.head_dim_v)) * element_bytes;
  return bytes;
}

}  // namespace kvcal
