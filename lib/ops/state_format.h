// How a server stores the recurrent state of a sequence between two forward passes, and after which tokens it does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace kvcal {

/// F32: as it is. F16Stochastic: one of the two neighbours, the nearer one more often (random_bits()).
enum class StateType : uint8_t { F32, Bf16, F16, F16Stochastic, E4m3, E5m2, Int8, Int16 };

/// What shares a scale. A row is what a head holds for one channel of its values: all channels of its keys. A tile is
/// kStateTile rows.
enum class StateScale : uint8_t { Tensor, Head, Tile, Row };

constexpr int64_t kStateTile = 64;

/// Types of 16 bits with a fraction have no scale, and become infinite beyond their largest. The others are dynamic:
/// each time scale = absmax / largest, 1 where that is 0, and x becomes scale · rounded(x / scale), in f32.
struct StateFormat {
  StateType type = StateType::F32;
  StateScale scale = StateScale::Tensor;
  /// A prompt's state is stored after every so many of its tokens (1: as in decoding; 0: not), and after its last. The
  /// tokens that follow are decoded: it is stored after each.
  int64_t chunk = 1;
  int64_t prompt_tokens = std::numeric_limits<int64_t>::max();
  int layer = 0;  // that random bits are of

  bool rounds() const { return type != StateType::F32; }
  bool has_scale() const { return type >= StateType::E4m3; }
  bool operator==(const StateFormat&) const = default;
};

/// How many tokens of a sequence have passed where its state is stored next, `passed` of them already.
constexpr int64_t next_stored(const StateFormat& format, int64_t passed) {
  if (passed >= format.prompt_tokens) return passed + 1;
  if (format.chunk == 0) return format.prompt_tokens;
  return std::min(format.prompt_tokens, (passed / format.chunk + 1) * format.chunk);
}

/// The first of these places at which a state is counted, and how many times as far each other one is: multiples of the
/// chunks in which it is computed, so that a cut there changes no bit of what follows.
constexpr int64_t kFirstCounted = 64, kCountedStep = 4;

/// How many tokens of a sequence have passed where its state is counted next, `passed` of them already: 64, 256, 1024,
/// ... of them, and all.
constexpr int64_t next_counted(int64_t passed, int64_t sequence_tokens) {
  int64_t next = kFirstCounted;
  while (next <= passed && next < sequence_tokens) next *= kCountedStep;
  return std::min(next, sequence_tokens);
}

constexpr float largest_of(StateType type) {
  switch (type) {
    case StateType::E4m3:
      return 448.0f;
    case StateType::E5m2:
      return 57344.0f;
    case StateType::Int8:
      return 127.0f;
    case StateType::Int16:
      return 32767.0f;
    default:
      return std::numeric_limits<float>::infinity();
  }
}

constexpr uint64_t mixed_bits(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Where the random bits of a state come from: its layer, and how many tokens have passed. Those of a number are
/// mixed_bits(seed + i), its index in [heads, key channels, value channels] or [value channels, key channels].
constexpr uint64_t random_seed(const StateFormat& format, int64_t passed) {
  return mixed_bits(mixed_bits(static_cast<uint64_t>(format.layer)) + static_cast<uint64_t>(passed));
}

}  // namespace kvcal
