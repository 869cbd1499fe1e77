// How a server rounds what a quantized linear layer multiplies: to FP8 with a scale, at the input of the layer.
#pragma once

#include <cstdint>
#include <limits>

namespace kvcal {

/// Of the inputs of one weight; none by default. Values become e4m3(x / scale) · scale, where e4m3 rounds to the
/// nearest code, ties to even, and saturates at 448.
///
/// Static: the scale is in the checkpoint. Dynamic: each run of `group` columns of a row (the last may be shorter) has
///   scale = max(min(absmax, most_absmax) / 448, least_scale), rounded up to a power of two if so asked, all in f32.
struct InputRounding {
  static constexpr int64_t kWholeRow = std::numeric_limits<int64_t>::max();
  // Of vLLM's kernels (csrc/quantization/w8a8/fp8/common.cu): per token 1 / (448 · 512), in groups 1e-10 / 448.
  static constexpr float kLeastTokenScale = 1.0f / (448.0f * 512.0f), kLeastGroupScale = 1e-10f / 448.0f;

  float scale = 0;    // > 0: static
  int64_t group = 0;  // > 0: dynamic
  float least_scale = 0;
  float most_absmax = std::numeric_limits<float>::infinity();
  bool power_of_two = false;

  explicit operator bool() const { return scale > 0 || group > 0; }
  bool operator==(const InputRounding&) const = default;

  static InputRounding by_token() { return {0, kWholeRow, kLeastTokenScale}; }
  static InputRounding by_group(int64_t columns, bool power_of_two) {
    return {0, columns, kLeastGroupScale, std::numeric_limits<float>::infinity(), power_of_two};
  }
};

/// What two layers that a server keeps as one round their common input with: the larger static scale, as vLLM takes.
inline InputRounding common(const InputRounding& a, const InputRounding& b) { return b.scale > a.scale ? b : a; }

/// Whether one rounding can serve both.
inline bool alike(InputRounding a, InputRounding b) {
  if (a.scale > 0 && b.scale > 0) a.scale = b.scale;
  return a == b;
}

}  // namespace kvcal
