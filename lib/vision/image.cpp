#include "vision/image.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "vision/image_formats.h"

namespace kvcal {
namespace {

StoredImage read(std::string_view bytes) {
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return while_doing("PNG", [&] { return read_png(bytes); });
  if (bytes.starts_with("\xff\xd8\xff")) return while_doing("JPEG", [&] { return read_jpeg(bytes); });
  if (bytes.starts_with("RIFF") && bytes.substr(0, 12).ends_with("WEBP"))
    return while_doing("WebP", [&] { return read_webp(bytes); });
  fail("is no PNG, JPEG or WebP picture");
}

// Orientations 5 to 8 lay the picture on its side.
ImageSize upright_size(const ImageSize& stored, int orientation) {
  return orientation >= 5 ? ImageSize{stored.width, stored.height} : stored;
}

// Where in the stored picture the pixel of the upright one is.
std::pair<int64_t, int64_t> stored_place(int64_t y, int64_t x, const ImageSize& stored, int orientation) {
  if (orientation >= 5) std::swap(y, x);
  const bool bottom_up = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool mirrored = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  return {bottom_up ? stored.height - 1 - y : y, mirrored ? stored.width - 1 - x : x};
}

Image upright(StoredImage stored) {
  const auto& [image, orientation] = stored;
  if (orientation == 1) return std::move(stored.image);
  Image out{upright_size(image.size, orientation), std::vector<uint8_t>(image.rgb.size())};
  uint8_t* to = out.rgb.data();
  for (int64_t y = 0; y < out.size.height; ++y)
    for (int64_t x = 0; x < out.size.width; ++x, to += 3) {
      const auto [from_y, from_x] = stored_place(y, x, image.size, orientation);
      std::copy_n(image.rgb.data() + (from_y * image.size.width + from_x) * 3, 3, to);
    }
  return out;
}

}  // namespace

void check_size(const ImageSize& size) {
  const std::string text = std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels";
  if (size.height < 1 || size.width < 1) fail("has " + text);
  if (size.height > kLongestEdge || size.width > kLongestEdge || size.height * size.width > kMostPixels)
    fail("has " + text + ", at most " + std::to_string(kMostPixels) + " and an edge of " +
         std::to_string(kLongestEdge) + " are accepted");
}

Image decode_image(std::string_view bytes) { return upright(read(bytes)); }

}  // namespace kvcal
