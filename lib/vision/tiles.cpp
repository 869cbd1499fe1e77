#include "vision/tiles.h"

#include <algorithm>

namespace kvcal {

void append_tile(Image& to, const Image& picture, const Corner& first, int64_t edge) {
  for (int64_t y = first.top; y < first.top + edge; ++y) {
    const auto from = picture.rgb.begin() + (y * picture.size.width + first.left) * 3;
    to.rgb.insert(to.rgb.end(), from, from + edge * 3);
  }
  to.size = {to.size.height + edge, edge};
}

Image on_black(const Image& picture, const ImageSize& size, const Corner& first) {
  Image out{size, std::vector<uint8_t>(static_cast<size_t>(size.height * size.width * 3))};
  const int64_t line = picture.size.width * 3;
  for (int64_t y = 0; y < picture.size.height; ++y)
    std::copy_n(picture.rgb.begin() + y * line, line,
                out.rgb.begin() + ((first.top + y) * size.width + first.left) * 3);
  return out;
}

}  // namespace kvcal
