// Pictures of a few pixels whose files could take gigabytes or minutes: what stands in them beside the pixels is
// neither kept nor unpacked.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "base/error.h"
#include "base/read_file.h"
#include "harness/cost.h"
#include "vision/image.h"

namespace kvcal {
namespace {

constexpr int64_t kMostKilobytes = 50 << 10;
constexpr double kMostSeconds = 4;

std::string packed(const std::string& bytes) {
  uLongf n = compressBound(bytes.size());
  std::string out(n, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &n, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), 9);
  out.resize(n);
  return out;
}

std::string number(size_t n) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(n >> shift);
  return out;
}

std::string chunk(const std::string& name, const std::string& data) {
  const std::string body = name + data;
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return number(data.size()) + body + number(sum);
}

std::string repeated(const std::string& text, size_t n) {
  std::string out;
  for (size_t i = 0; i < n; ++i) out += text;
  return out;
}

/// 10 x 10 pixels of a palette's second color, with chunks before them, and `pixels` in place of their IDAT.
struct Png {
  std::string before_palette = {}, before_pixels = {}, behind = {};
  std::string pixels = chunk("IDAT", packed(repeated(std::string(1, '\0') + std::string(10, '\1'), 10)));
  bool interlaced = false;

  std::string file() const {
    const std::string form("\x08\x03\0\0", 4), signature = "\x89PNG\r\n\x1a\n";
    return signature + chunk("IHDR", number(10) + number(10) + form + (interlaced ? '\1' : '\0')) + before_palette +
           chunk("PLTE", std::string("\0\0\0\x10\x20\x30", 6)) + before_pixels + pixels + behind + chunk("IEND", "");
  }
};

bool has_the_color(const std::string& file) {
  const Image image = decode_image(file);
  for (size_t i = 0; i < image.rgb.size(); ++i)
    if (image.rgb[i] != 0x10 * (i % 3 + 1)) return false;
  return image.size == ImageSize{10, 10};
}

void expect_cheap(const char* what, const std::string& file) {
  const Cost cost = cost_of([&] {
    try {
      decode_image(file);
    } catch (const Error&) {  // is as good
    }
  });
  EXPECT_TRUE(cost.ended) << what;
  EXPECT_LT(cost.kilobytes, kMostKilobytes) << what;
  EXPECT_LT(cost.seconds, kMostSeconds) << what;
}

TEST(PictureLimits, what_png_has_beside_pixels_is_not_kept) {
  const std::string text = packed(std::string(7'900'000, 'a')), name("a\0", 2);
  const std::pair<const char*, std::string> chunks[] = {
      {"iTXt", name + std::string("\1\0\0\0", 4) + text},
      {"zTXt", name + std::string(1, '\0') + text},
      {"tEXt", name + std::string(30000, 'a')},
      {"iCCP", name + std::string(1, '\0') + text},
      {"sPLT", name + "\x08" + std::string(30000, 'a')},
      {"eXIf", "MM" + std::string(30000, 'a')},
      {"fdAT", std::string(30000, 'a')},
      {"prVt", std::string(30000, 'a')},
  };
  for (const auto& [type, data] : chunks) {
    const std::string many = repeated(chunk(type, data), 300);
    for (const Png& png : {Png{.before_palette = many}, {.before_pixels = many}, {.behind = many}}) {
      EXPECT_TRUE(has_the_color(png.file())) << type;
      expect_cheap(type, png.file());
    }
  }
}

TEST(PictureLimits, notes_on_color_change_no_pixel) {
  const std::string linear = chunk("gAMA", number(100000)), standard = chunk("sRGB", std::string(1, '\0'));
  const std::string points = chunk("cHRM", repeated(number(31270), 8)), bits = chunk("sBIT", "\5\5\5");
  const std::string transparent = chunk("tRNS", std::string(2, '\0')), back = chunk("bKGD", "\1");
  for (const std::string& notes : {linear, standard, points, bits, linear + points})
    EXPECT_TRUE(has_the_color(Png{.before_palette = notes}.file()));
  EXPECT_TRUE(has_the_color(Png{.before_pixels = transparent + back}.file()));
}

TEST(PictureLimits, pixels_of_png_come_in_any_number_of_pieces) {
  const std::string rows = packed(repeated(std::string(1, '\0') + std::string(10, '\1'), 10));
  std::string pieces = repeated(chunk("IDAT", ""), 100'000);
  for (const char byte : rows) pieces += chunk("IDAT", std::string(1, byte));
  EXPECT_TRUE(has_the_color(Png{.pixels = pieces}.file()));
  expect_cheap("pieces", Png{.pixels = pieces}.file());
  // Rows of the seven passes; and gigabytes behind the last row.
  const std::string passes = chunk("IDAT", packed(std::string(4000, '\0')));
  EXPECT_EQ(decode_image(Png{.pixels = passes, .interlaced = true}.file()).size, (ImageSize{10, 10}));
  const std::string surplus = packed(repeated(std::string(1, '\0') + std::string(10, '\1'), 1'000'000));
  expect_cheap("surplus", Png{.pixels = repeated(chunk("IDAT", surplus), 100)}.file());
}

TEST(PictureLimits, markers_of_jpeg_cost_no_more_than_their_bytes) {
  const std::string whole =
      read_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/pictures/images/grown.jpg", 1 << 20);
  for (const char* marker : {"\xff\xe1", "\xff\xe2", "\xff\xfe"}) {
    const std::string markers = repeated(marker + std::string("\0\2", 2), 1'000'000);
    const std::string file = whole.substr(0, 2) + markers + whole.substr(2);
    EXPECT_EQ(decode_image(file).rgb, decode_image(whole).rgb);
    expect_cheap("markers", file);
  }
}

}  // namespace
}  // namespace kvcal
