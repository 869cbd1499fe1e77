#include "vision/tiles.h"

namespace kvcal {

void append_tile(Image& to, const Image& picture, const Corner& first, int64_t edge) {
  for (int64_t y = first.top; y < first.top + edge; ++y) {
    const auto from = picture.rgb.begin() + (y * picture.size.width + first.left) * 3;
    to.rgb.insert(to.rgb.end(), from, from + edge * 3);
  }
  to.size = {to.size.height + edge, edge};
}

}  // namespace kvcal
