// What the recurrent layers of one sequence keep on one GPU, in the types that servers have for it and in 8 bits.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_spec.h"

namespace kvcal {

enum class StateWidth : uint8_t {
  F32,
  BF16,
  F16,
  FP8,   // one byte, and a float32 for each row of a head
  INT8,  // the same
};
inline constexpr std::array kStateWidths = {StateWidth::F32, StateWidth::BF16, StateWidth::F16, StateWidth::FP8,
                                            StateWidth::INT8};
std::string_view name_of(StateWidth format);  // "f32", "bf16", ...
const char* title_of(StateWidth format);      // "F32", "BF16", ...

/// How a server keeps the states of a sequence.
struct StateStorage {
  StateWidth format = StateWidth::F32;
  int64_t slots = 1;  // whole states: its own, checkpoints of prefix caching, one for each drafted token
};

/// Layers of one kind, in one slot. What a convolution looks back at is in 16 bits whatever the format.
struct StateCost {
  LayerKind kind = LayerKind::Mamba2;
  int64_t n_layers = 0, conv_bytes = 0, state_bytes = 0;  // bytes of all of them
  int64_t bytes() const { return conv_bytes + state_bytes; }
};

/// On each of `tp` GPUs, which divide it.
std::vector<StateCost> cost_of_state(const ModelSpec& spec, StateWidth format, int64_t tp);

/// Of a whole slot.
int64_t slot_bytes(const ModelSpec& spec, StateWidth format, int64_t tp);

}  // namespace kvcal
