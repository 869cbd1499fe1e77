// Pictures from untrusted files: PNG, JPEG and WebP, as rows of RGB.
//
// What becomes of other kinds of pixels is what the reference framework does (torchvision's decode_image to RGB; of
// WebP, which it does not turn, Pillow):
// palettes and grey levels become colors, transparency is dropped, CMYK is multiplied out, and the picture is put
// upright as its EXIF orientation says.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvcal {

struct ImageSize {
  int64_t height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

struct Image {
  ImageSize size;
  std::vector<uint8_t> rgb;  // [height, width, 3]
};

/// Of one picture; more is refused before memory is taken for it.
constexpr int64_t kMostPixels = int64_t{1} << 26;
constexpr int64_t kLongestEdge = 65535;

/// The upright picture. Throws Error for what is none of these, moves, is broken or cut short anywhere, has no pixels,
/// or has more than kMostPixels.
Image decode_image(std::string_view bytes);

}  // namespace kvcal
