// Resizing of pictures as the reference framework's processors do it: on 8-bit pixels.
#pragma once

#include "vision/image.h"

namespace kvcal {

/// Bicubic (a = -1/2), with the filter widened where the picture shrinks (antialias): first rows, then columns, rounded
/// to 8 bits after each, with weights of 16 bits: the bytes of torchvision's resize of uint8 on a CPU.
Image resized(const Image& image, const ImageSize& size);

}  // namespace kvcal
