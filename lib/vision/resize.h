// Resizing of pictures as the reference framework's processors do it: on 8-bit pixels.
#pragma once

#include "vision/image.h"

namespace kvcal {

/// What a pixel counts for a point, by their distance: nothing from `radius` pixels on.
struct ResizeKernel {
  double radius;
  double (*weight)(double distance);
  int bits = 0;  // of the weights; 0: those of 16-bit numbers
};
extern const ResizeKernel kBilinear, kBicubic, kLanczos;  // bicubic with a = -1/2
extern const ResizeKernel kPillowBicubic;                 // with the weights of 22 bits that Pillow has

/// With the filter widened where the picture shrinks (antialias): first rows, then columns, rounded to 8 bits after
/// each: with weights of 16 bits the bytes of torchvision's resize of uint8 on a CPU.
Image resized(const Image& image, const ImageSize& size, const ResizeKernel& kernel);

}  // namespace kvcal
