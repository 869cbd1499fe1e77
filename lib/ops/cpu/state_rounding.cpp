// Recurrent states as they are stored and read back.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "tensor/small_floats.h"

namespace kvcal::cpu {
namespace {

/// One of the two halves beside x, the upper with the probability of its share of the way, to 13 bits.
float stochastic_half(float x, uint64_t random) {
  const auto share = static_cast<uint32_t>(random >> 51);
  if (!std::isfinite(x)) return x;
  const float magnitude = std::fabs(x);
  if (magnitude < 0x1p-14f) {  // steps of 2^-24
    const uint32_t steps = (static_cast<uint32_t>(magnitude * 0x1p37f) + share) >> 13;
    return std::copysign(static_cast<float>(steps) * 0x1p-24f, x);
  }
  const float half = std::bit_cast<float>((std::bit_cast<uint32_t>(magnitude) + share) & ~0x1FFFu);
  return std::copysign(half < 65536.0f ? half : std::numeric_limits<float>::infinity(), x);
}

template <StateType kType>
float rounded(float x, uint64_t random) {
  switch (kType) {
    case StateType::F32:
      break;
    case StateType::Bf16:
      return round_to_bf16(x);
    case StateType::F16:
      return stored_as(DType::F16, x);
    case StateType::F16Stochastic:
      return stochastic_half(x, mixed_bits(random));
    case StateType::E4m3:
      return round_to_e4m3(x);
    case StateType::E5m2:
      return round_to_e5m2(x);
    case StateType::Int8:
      return round_to_int8(x);
    case StateType::Int16:
      return round_to_int16(x);
  }
  return x;
}

/// f(std::integral_constant) for the type.
template <class F>
void visit_type(StateType type, F f) {
  switch (type) {
    case StateType::F32:
      return;
    case StateType::Bf16:
      return f(std::integral_constant<StateType, StateType::Bf16>());
    case StateType::F16:
      return f(std::integral_constant<StateType, StateType::F16>());
    case StateType::F16Stochastic:
      return f(std::integral_constant<StateType, StateType::F16Stochastic>());
    case StateType::E4m3:
      return f(std::integral_constant<StateType, StateType::E4m3>());
    case StateType::E5m2:
      return f(std::integral_constant<StateType, StateType::E5m2>());
    case StateType::Int8:
      return f(std::integral_constant<StateType, StateType::Int8>());
    case StateType::Int16:
      return f(std::integral_constant<StateType, StateType::Int16>());
  }
}

/// One head of a state: element (key channel k, value channel v) is data[k * key_step + v * value_step].
struct StateHead {
  float* data;
  int64_t keys, values, key_step, value_step, first;  // index of its first element in the state
};

StateHead head_of(const Tensor& state, int64_t head) {
  auto* data = state.as<float>();
  if (state.shape.rank() == 2) return {data, state.dim(1), state.dim(0), 1, state.dim(1), 0};
  const int64_t keys = state.dim(1), values = state.dim(2), first = head * keys * values;
  return {data + first, keys, values, values, 1, first};
}

int64_t heads_of(const Tensor& state) { return state.shape.rank() == 2 ? 1 : state.dim(0); }

/// f(element, its index in the head, value channel), in order of value channels for each key channel.
template <class F>
void each_element(const StateHead& h, const F& f) {
  for (int64_t k = 0; k < h.keys; ++k)
    for (int64_t v = 0; v < h.values; ++v) {
      const int64_t at = k * h.key_step + v * h.value_step;
      f(h.data[at], at, v);
    }
}

/// Of each row the largest magnitude. NaN is passed over: it stays NaN whatever the scale.
void row_absmax(const StateHead& h, float* absmax) {
  std::fill_n(absmax, h.values, 0.0f);
  each_element(h, [&](float x, int64_t, int64_t v) { absmax[v] = std::max(absmax[v], std::fabs(x)); });
}

/// In place: what those of rows become when neighbouring ones share a scale.
void absmax_to_scales(float* rows, int64_t n, int64_t together, float largest) {
  for (int64_t v = 0; v < n; v += together) {
    const int64_t end = std::min(n, v + together);
    const float scale = *std::max_element(rows + v, rows + end) / largest;
    std::fill(rows + v, rows + end, scale > 0.0f ? scale : 1.0f);
  }
}

template <StateType kType>
void round_head(const StateHead& h, const float* scales, uint64_t seed) {
  const uint64_t random = seed + static_cast<uint64_t>(h.first);
  if (scales)
    each_element(h, [&](float& x, int64_t, int64_t v) { x = rounded<kType>(x / scales[v], 0) * scales[v]; });
  else
    each_element(h, [&](float& x, int64_t at, int64_t) { x = rounded<kType>(x, random + static_cast<uint64_t>(at)); });
}

}  // namespace

void CpuBackend::store_states(const std::vector<Tensor>& states, std::span<const StoredNow> now,
                              const StateFormat& format) {
  const int64_t heads = heads_of(states[0]), values = head_of(states[0], 0).values;
  std::vector<float> scales(format.has_scale() ? states.size() * static_cast<size_t>(heads * values) : 0);
  const auto scales_of = [&](int64_t task) { return scales.empty() ? nullptr : scales.data() + task * values; };
  const auto n_tasks = static_cast<int64_t>(states.size()) * heads;
  const auto state_of = [&](int64_t task) { return head_of(states[static_cast<size_t>(task / heads)], task % heads); };
  if (format.has_scale()) parallel(n_tasks, [&](int64_t i, Arena&) { row_absmax(state_of(i), scales_of(i)); });
  if (format.has_scale() && format.scale == StateScale::Tensor)
    for (int64_t i = 0; i < n_tasks; i += heads)
      absmax_to_scales(scales_of(i), heads * values, heads * values, largest_of(format.type));
  const int64_t together = format.scale == StateScale::Row ? 1 : format.scale == StateScale::Tile ? kStateTile : values;
  visit_type(format.type, [&](auto type) {
    parallel(n_tasks, [&](int64_t i, Arena&) {
      if (format.has_scale() && format.scale != StateScale::Tensor)
        absmax_to_scales(scales_of(i), values, together, largest_of(format.type));
      round_head<type()>(state_of(i), scales_of(i), random_seed(format, now[static_cast<size_t>(i / heads)].passed));
    });
  });
}

}  // namespace kvcal::cpu
