// The formats of images, one file each.
#pragma once

#include "vision/image.h"

namespace kvcal {

/// As stored: before the orientation is applied.
struct StoredImage {
  Image image;
  int orientation = 1;  // EXIF's: 1 to 8
};

StoredImage read_png(std::string_view bytes);
StoredImage read_jpeg(std::string_view bytes);
StoredImage read_webp(std::string_view bytes);

/// Throws Error for sizes that image.h refuses.
void check_size(const ImageSize& size);

/// EXIF's orientation, of a TIFF block ("II*" or "MM" and so on); 1 where it has none or cannot be read.
int exif_orientation(std::string_view tiff);

}  // namespace kvcal
