// Tiles of a picture, as they go to a tower: below each other.
#pragma once

#include "vision/image.h"

namespace kvcal {

/// A pixel of a picture.
struct Corner {
  int64_t top, left;
};

/// Puts the square of `edge` pixels whose first one lies there in the picture below the tiles of `to`, as wide.
void append_tile(Image& to, const Image& picture, const Corner& first, int64_t edge);

/// A black picture of that size, in which the other one lies with its first pixel there.
Image on_black(const Image& picture, const ImageSize& size, const Corner& first);

}  // namespace kvcal
