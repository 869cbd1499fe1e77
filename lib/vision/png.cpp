// libpng leaves by longjmp: between setjmp and that nothing may be alive that has a destructor, so what owns memory is
// made before, and PngReader's functions hold plain values only.
#include <png.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/error.h"
#include "vision/image_formats.h"

namespace kvcal {
namespace {

// deflate packs no tighter than 1032 to 1: what claims more pixels than its bytes can hold would only fill memory.
constexpr int64_t kTightest = 1032;

struct PngReader {
  std::string_view bytes;
  size_t at = 0;
  char message[128] = {};
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }

  static void on_error(png_structp png, png_const_charp text) {
    auto* self = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self->message, text, sizeof self->message - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep to, size_t n) {
    auto* self = static_cast<PngReader*>(png_get_io_ptr(png));
    if (n > self->bytes.size() - self->at) png_error(png, "is truncated");
    std::memcpy(to, self->bytes.data() + self->at, n);
    self->at += n;
  }

  bool open() {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info = png ? png_create_info_struct(png) : nullptr;
    return info != nullptr;
  }

  bool read_header() {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_read_fn(png, this, read);
    png_set_user_limits(png, kLongestEdge, kLongestEdge);
    // Only the pixels, their palette and the orientation are looked at. Of the rest, libpng would unpack and keep texts
    // and color profiles, megabytes for each kilobyte. A negative count means all that it has a name for.
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);
    png_read_info(png, info);
    return true;
  }

  // 8 bits of red, green and blue.
  bool read_pixels(png_bytepp rows) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_scale_16(png);
    png_set_expand(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    png_read_image(png, rows);
    png_read_end(png, info);
    return true;
  }

  std::string_view exif() {
    png_bytep data = nullptr;
    png_uint_32 n = 0;
    if (!png_get_eXIf_1(png, info, &n, &data)) return {};
    return {reinterpret_cast<const char*>(data), n};
  }
};

void check_bytes(const ImageSize& size, int64_t bits_of_pixel, size_t n_bytes) {
  if (size.height * size.width * bits_of_pixel / 8 / kTightest > static_cast<int64_t>(n_bytes))
    fail("is truncated: " + std::to_string(n_bytes) + " bytes cannot hold " + std::to_string(size.width) + " x " +
         std::to_string(size.height) + " pixels");
}

/// libpng takes what a chunk claims to need before it reads it, and its limit on that is only a warning.
void check_chunks(std::string_view bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, type and checksum
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  for (size_t at = kSignature; at < bytes.size();) {
    const size_t left = bytes.size() - at;
    if (left < kAround) fail("is truncated");
    const size_t length = byte(at) << 24 | byte(at + 1) << 16 | byte(at + 2) << 8 | byte(at + 3);
    if (length > left - kAround)
      fail("is truncated: a chunk claims " + std::to_string(length) + " bytes, " + std::to_string(left - kAround) +
           " are left");
    if (bytes.substr(at + 4, 4) == "IEND") return;  // what stands behind it is no chunk
    at += kAround + length;
  }
}

}  // namespace

StoredImage read_png(std::string_view bytes) {
  check_chunks(bytes);
  PngReader reader{bytes};
  if (!reader.open()) fail("libpng cannot start");
  if (!reader.read_header()) fail(printable(reader.message, sizeof reader.message));
  StoredImage out;
  ImageSize& size = out.image.size;
  size = {png_get_image_height(reader.png, reader.info), png_get_image_width(reader.png, reader.info)};
  check_size(size);
  check_bytes(size, int64_t{png_get_channels(reader.png, reader.info)} * png_get_bit_depth(reader.png, reader.info),
              bytes.size());
  out.orientation = exif_orientation(reader.exif());
  out.image.rgb.resize(static_cast<size_t>(size.height * size.width * 3));
  std::vector<png_bytep> rows;
  for (int64_t y = 0; y < size.height; ++y) rows.push_back(out.image.rgb.data() + y * size.width * 3);
  if (!reader.read_pixels(rows.data())) fail(printable(reader.message, sizeof reader.message));
  return out;
}

}  // namespace kvcal
