#include "capacity/state_cost.h"

#include <algorithm>

namespace kvcal {
namespace {

int64_t bytes_of(int64_t n, int64_t row, StateWidth format) {
  switch (format) {
    case StateWidth::F32:
      return 4 * n;
    case StateWidth::BF16:
    case StateWidth::F16:
      return 2 * n;
    case StateWidth::FP8:
    case StateWidth::INT8:
      return row > 0 ? n + n / row * static_cast<int64_t>(sizeof(float)) : n;
  }
  return 0;
}

int64_t share(int64_t bytes, int64_t tp) { return (bytes + tp - 1) / tp; }

}  // namespace

std::string_view name_of(StateWidth format) {
  static constexpr std::array<std::string_view, 5> kNames = {"f32", "bf16", "f16", "fp8", "int8"};
  return kNames[static_cast<size_t>(format)];
}

const char* title_of(StateWidth format) {
  static constexpr std::array kTitles = {"F32", "BF16", "F16", "FP8", "INT8"};
  return kTitles[static_cast<size_t>(format)];
}

std::vector<StateCost> cost_of_state(const ModelSpec& spec, StateWidth format, int64_t tp) {
  std::vector<StateCost> costs;
  for (const LayerSpec& layer : spec.layers) {
    if (layer.state_bytes == 0) continue;
    auto same = std::ranges::find(costs, layer.state_kind(), &StateCost::kind);
    if (same == costs.end()) same = costs.insert(costs.end(), {.kind = layer.state_kind()});
    const int64_t elements = (layer.state_bytes - layer.conv_bytes) / static_cast<int64_t>(sizeof(float));
    ++same->n_layers;
    same->conv_bytes += share(layer.conv_bytes, tp);
    same->state_bytes += share(bytes_of(elements, layer.state_row, format), tp);
  }
  return costs;
}

int64_t slot_bytes(const ModelSpec& spec, StateWidth format, int64_t tp) {
  int64_t bytes = 0;
  for (const StateCost& cost : cost_of_state(spec, format, tp)) bytes += cost.bytes();
  return bytes;
}

}  // namespace kvcal
