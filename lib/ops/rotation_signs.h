// The signs that vLLM 0.33.0 gives a row before it turns it by a Hadamard matrix (int4_per_token_head). They are drawn
// once, from a fixed seed; those of a short row are the first of a longer one's.
#pragma once

#include <cstdint>

namespace kvcal {

/// Channels that are turned together at most.
constexpr int64_t kMostRotated = 512;

/// Channel i keeps its sign where bit i is set, counted from the lowest of the first word.
struct RotationSigns {
  uint64_t kept[kMostRotated / 64];
};

inline constexpr RotationSigns kRotationSigns{{0x808035B16573590D, 0x6B7F5438A6443D6C, 0xABAFC4414AA48B81,
                                               0xFA2043A0320B9848, 0xA8A9C7CB4D6E1C33, 0x9803B3591B951DDA,
                                               0xCD26200E3038796E, 0x8A9DACB9C9A02476}};

/// How many neighbouring channels of a row are turned together: the largest power of two that divides its width.
constexpr int64_t rotated_together(int64_t width) { return width & -width; }

}  // namespace kvcal
