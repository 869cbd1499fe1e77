#include "capacity/cache_cost.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace kvcal {
namespace {

int64_t element_bytes(int64_t width, KvFormat format) {
  constexpr int64_t kBlock = 16;  // elements that share a scale in NVFP4
  switch (format) {
    case KvFormat::BF16:
      return 2 * width;
    case KvFormat::FP8:
      return width;
    case KvFormat::NVFP4:
      return (width + 1) / 2 + (width + kBlock - 1) / kBlock;
    case KvFormat::INT4:
      return (width + 1) / 2;
  }
  return 0;
}

int64_t row_bytes(int64_t width, const StoredRow& row) {
  return element_bytes(width, row.format) + (row.has_scale ? static_cast<int64_t>(sizeof(float)) : 0);
}

int64_t heads_per_gpu(const KvLayout& c, int64_t tp) { return std::max<int64_t>(1, c.n_kv_heads / tp); }

int64_t row_bytes(const KvLayout& c, const StoredLayer& stored, int64_t tp) {
  if (c.is_mla()) return row_bytes(c.head_dim_k, stored.key);
  return heads_per_gpu(c, tp) * (row_bytes(c.head_dim_k, stored.key) + row_bytes(c.head_dim_v, stored.value));
}

// Layers are fewer than a thousand kinds, so that sums of such products stay within 64 bits.
int64_t times(int64_t a, int64_t b) {
  constexpr int64_t kMost = 1'000'000'000'000'000;
  if (b != 0 && a > kMost / b)
    fail("one sequence would keep more than 10^15 bytes; are the sizes in the config right?");
  return a * b;
}

bool divides(const KvLayout& c, int64_t tp) {
  if (c.n_heads % tp != 0) return false;
  return c.is_mla() || (c.n_kv_heads >= tp ? c.n_kv_heads % tp == 0 : tp % c.n_kv_heads == 0);
}

bool divides_all(const ModelSpec& spec, int64_t tp) {
  return std::all_of(spec.caches.begin(), spec.caches.end(), [&](const KvLayout& c) { return divides(c, tp); });
}

std::string possible_sizes(const ModelSpec& spec) {
  constexpr int64_t kMostGpus = 256;
  std::string list;
  for (int64_t tp = 1; tp <= kMostGpus; ++tp)
    if (divides_all(spec, tp)) list += (list.empty() ? "" : ", ") + std::to_string(tp);
  return list;
}

StoredRow stored_row(int layer, std::string_view format) {
  if (format == "bf16") return {KvFormat::BF16};
  if (format.starts_with("nvfp4")) return {KvFormat::NVFP4};
  const bool has_scale = format.ends_with("_per_token_head");
  if (format.starts_with("int4_") && has_scale) return {KvFormat::INT4, has_scale};
  if (!format.starts_with("fp8_") && !format.starts_with("int8"))
    fail("layer " + std::to_string(layer) + " is stored in " + quoted(format) + ", whose size is not known");
  return {KvFormat::FP8, has_scale};
}

}  // namespace

std::string_view name_of(KvFormat format) {
  switch (format) {
    case KvFormat::BF16:
      return "bf16";
    case KvFormat::FP8:
      return "fp8";
    case KvFormat::NVFP4:
      return "nvfp4";
    case KvFormat::INT4:
      return "int4";
  }
  return "";
}

const char* title_of(KvFormat format) {
  static constexpr std::array kTitles = {"BF16", "FP8", "NVFP4", "INT4"};
  return kTitles[static_cast<size_t>(format)];
}

// vLLM 0.33.0 stops with "nvfp4 KV cache is not supported with MLA", SGLang's MLATokenToKVPoolFP4 (0.5.23
// memory_pool.py) quantizes them as fp4_mx_block16. vLLM gives INT4 to no backend of MLA, of MiMo-V2-Flash, of
// MiniMax-M3.
std::string why_not_planned(const ModelSpec& spec, KvFormat format) {
  const bool mla = std::ranges::any_of(spec.caches, &KvLayout::is_mla);
  const bool plain = !mla &&
                     std::ranges::all_of(spec.caches, [](const KvLayout& c) { return c.head_dim_k == c.head_dim_v; }) &&
                     std::ranges::all_of(spec.layers, [](const LayerSpec& l) { return l.index_row_bytes == 0; });
  if (format == KvFormat::NVFP4 && mla)
    return "vLLM stores no rows of MLA so, SGLang stores them in another type of 4 bits";
  if (format == KvFormat::INT4 && !plain)
    return "vLLM, which alone has it, stores keys and values of one width so, none of MLA or with an indexer";
  return "";
}

int64_t SequenceCost::bytes_per_token() const {
  int64_t bytes = 0;
  for (const CacheCost& c : caches) bytes += times(c.row_bytes, c.n_layers);
  return bytes;
}

int64_t SequenceCost::bytes_per_late_token() const {
  int64_t bytes = 0;
  for (const CacheCost& c : caches) bytes += c.window == 0 ? times(c.row_bytes, c.n_layers) : 0;
  return bytes;
}

int64_t SequenceCost::bytes(int64_t context) const {
  int64_t bytes = state_bytes;
  for (const CacheCost& c : caches) {
    const int64_t kept = c.window > 0 ? std::min(context, c.window) : context;
    bytes += times(times(c.row_bytes, c.n_layers), kept);
  }
  return bytes;
}

SequenceCost cost_of_sequence(const ModelSpec& spec, KvFormat format, int64_t tp, std::span<const int> kept_layers,
                              const StateStorage& state) {
  std::vector<StoredLayer> layers;
  for (const KvLayout& c : spec.caches) {
    const bool kept = std::ranges::find(kept_layers, c.layer) != kept_layers.end();
    const StoredRow row{kept ? KvFormat::BF16 : format, !kept && format == KvFormat::INT4};
    layers.push_back({c.layer, row, row});
  }
  return cost_of_sequence(spec, layers, tp, state);
}

StoredLayer stored_layer(int layer, std::string_view format) {
  const size_t colon = format.find(':');
  if (colon != std::string_view::npos)
    return {layer, stored_row(layer, format.substr(0, colon)), stored_row(layer, format.substr(colon + 1))};
  if (format == "turboquant_k8v4") return {layer, {KvFormat::FP8}, {KvFormat::INT4, true}};
  const StoredRow row = stored_row(layer, format);
  return {layer, row, row};
}

SequenceCost cost_of_sequence(const ModelSpec& spec, std::span<const StoredLayer> layers, int64_t tp,
                              const StateStorage& state) {
  SequenceCost cost;
  cost.state_bytes = times(slot_bytes(spec, state.format, tp), state.slots);
  const auto add = [&](const CacheCost& one) {
    const auto same = std::find_if(cost.caches.begin(), cost.caches.end(), [&](const CacheCost& other) {
      return other.row_bytes == one.row_bytes && other.window == one.window && other.is_mla == one.is_mla &&
             other.of_indexer == one.of_indexer;
    });
    if (same != cost.caches.end())
      ++same->n_layers;
    else
      cost.caches.push_back(one);
  };
  for (const KvLayout& c : spec.caches) {
    const auto stored = std::ranges::find(layers, c.layer, &StoredLayer::layer);
    if (stored == layers.end()) fail("no format is given for layer " + std::to_string(c.layer));
    add({1, row_bytes(c, *stored, tp), c.window, c.is_mla()});
  }
  for (const LayerSpec& layer : spec.layers)
    if (layer.index_row_bytes > 0) add({1, layer.index_row_bytes, 0, false, true});
  return cost;
}

void check_tensor_parallel(const ModelSpec& spec, int64_t tp) {
  for (const KvLayout& c : spec.caches)
    if (!divides(c, tp))
      fail("tensor parallel over " + std::to_string(tp) + " GPUs: layer " + std::to_string(c.layer) + " has " +
           std::to_string(c.n_heads) + " query heads and " + std::to_string(c.n_kv_heads) +
           " key-value heads, which servers cannot divide so; possible: " + possible_sizes(spec));
}

bool copies_heads(const ModelSpec& spec, int64_t tp) {
  return std::any_of(spec.caches.begin(), spec.caches.end(),
                     [&](const KvLayout& c) { return !c.is_mla() && c.n_kv_heads < tp; });
}

}  // namespace kvcal
