// Files of pictures: an Error, or a picture with as many bytes as its pixels have, which can be resized.
#include "fuzz/fuzzing.h"
#include "vision/resize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  fuzzing::accepts([&] {
    const Image image = decode_image({reinterpret_cast<const char*>(data), size});
    fuzzing::require(image.size.height > 0 && image.size.width > 0, "a picture has pixels");
    fuzzing::require(image.rgb.size() == static_cast<size_t>(image.size.height * image.size.width * 3),
                     "a picture has three bytes for each pixel");
    const Image small = resized(image, {3, 2}, kBicubic);
    fuzzing::require(small.size == ImageSize{3, 2} && small.rgb.size() == 18, "a picture is resized");
  });
  return 0;
}
