// libjpeg leaves by longjmp: see png.cpp.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <string>

// clang-format off: the header names what <cstdio> declares
#include <jpeglib.h>
// clang-format on

#include "base/error.h"
#include "vision/image_formats.h"

namespace kvcal {
namespace {

// Progressive pictures have about ten scans. Each of thousands would go over all pixels.
constexpr int kMostScans = 64;
constexpr std::string_view kExif("Exif\0\0", 6);

struct JpegReader {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};
  std::string_view tiff = {};  // of the first marker that is EXIF's

  JpegReader() {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    jpeg.client_data = this;
    progress.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }

  template <class Jpeg>
  static JpegReader& self(Jpeg* jpeg) {
    return *static_cast<JpegReader*>(jpeg->client_data);
  }
  static void leave(j_common_ptr jpeg) { std::longjmp(self(jpeg).escape, 1); }
  static void on_error(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, self(jpeg).message);
    leave(jpeg);
  }
  // Data that ends too early, or is broken, is filled up with grey: nobody wants that measured.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0) on_error(jpeg);
  }
  static void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
    std::snprintf(self(jpeg).message, JMSG_LENGTH_MAX, "has more than %d scans", kMostScans);
    leave(jpeg);
  }

  // Looked at where it stands: jpeg_save_markers() would copy each, and go through those it has for every further one.
  static boolean on_app1(j_decompress_ptr jpeg) {
    constexpr size_t kLength = 2;  // is counted, too
    jpeg_source_mgr& from = *jpeg->src;
    const JOCTET* at = from.next_input_byte;
    const size_t n = from.bytes_in_buffer < kLength ? 0 : size_t{at[0]} << 8 | at[1];
    if (n < kLength || n > from.bytes_in_buffer) {
      std::snprintf(self(jpeg).message, JMSG_LENGTH_MAX, "has a broken APP1 marker");
      leave(reinterpret_cast<j_common_ptr>(jpeg));
    }
    const std::string_view data(reinterpret_cast<const char*>(at) + kLength, n - kLength);
    if (self(jpeg).tiff.empty() && data.starts_with(kExif)) self(jpeg).tiff = data.substr(kExif.size());
    from.next_input_byte += n;
    from.bytes_in_buffer -= n;
    return TRUE;
  }

  bool read_header(std::string_view bytes) {
    if (setjmp(escape)) return false;
    jpeg_create_decompress(&jpeg);
    jpeg.progress = &progress;
    jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_set_marker_processor(&jpeg, JPEG_APP0 + 1, on_app1);
    jpeg_read_header(&jpeg, TRUE);
    const bool four = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
    jpeg.out_color_space = four ? JCS_CMYK : JCS_RGB;
    return true;
  }

  // `line` [width, 4] holds a row of CMYK.
  bool read_pixels(uint8_t* rgb, uint8_t* line) {
    if (setjmp(escape)) return false;
    jpeg_start_decompress(&jpeg);
    while (jpeg.output_scanline < jpeg.output_height) read_line(rgb, line);
    jpeg_finish_decompress(&jpeg);
    return true;
  }

  void read_line(uint8_t* rgb, uint8_t* line) {
    uint8_t* const to = rgb + size_t{jpeg.output_scanline} * jpeg.output_width * 3;
    JSAMPROW row = jpeg.out_color_space == JCS_CMYK ? line : to;
    jpeg_read_scanlines(&jpeg, &row, 1);
    if (row == line) multiply_out(line, to, jpeg.output_width);
  }

  // Files hold 255 minus the amount of each ink.
  static void multiply_out(const uint8_t* cmyk, uint8_t* rgb, size_t n) {
    for (size_t i = 0; i < n; ++i)
      for (size_t c = 0; c < 3; ++c) {
        const int black = cmyk[4 * i + 3], product = black * (255 - cmyk[4 * i + c]) + 128;
        rgb[3 * i + c] = static_cast<uint8_t>(black - (((product >> 8) + product) >> 8));
      }
  }
};

}  // namespace

StoredImage read_jpeg(std::string_view bytes) {
  JpegReader reader;
  if (!reader.read_header(bytes)) fail(printable(reader.message, sizeof reader.message));
  StoredImage out;
  ImageSize& size = out.image.size;
  size = {reader.jpeg.image_height, reader.jpeg.image_width};
  check_size(size);
  out.orientation = reader.tiff.empty() ? 1 : exif_orientation(reader.tiff);
  out.image.rgb.resize(static_cast<size_t>(size.height * size.width * 3));
  std::vector<uint8_t> line(static_cast<size_t>(size.width) * 4);
  if (!reader.read_pixels(out.image.rgb.data(), line.data())) fail(printable(reader.message, sizeof reader.message));
  return out;
}

}  // namespace kvcal
