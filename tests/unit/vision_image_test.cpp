// Pictures as the reference framework reads them (tests/arch/pictures/images, made by
// tests/reference/make_picture_goldens.py), and files that were made to do harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/read_file.h"
#include "vision/image.h"
#include "vision/resize.h"

namespace kvcal {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/pictures/images";

std::string bytes_of(const std::string& name) { return read_file(kFolder / name, 1 << 20); }

/// What stands under this name in images.safetensors: U8 [height, width, 3].
Image expected(const std::string& name) {
  const std::string file = bytes_of("images.safetensors");
  uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = n << 8 | static_cast<unsigned char>(file[static_cast<size_t>(i)]);
  const Json entry = parse_json(file.substr(8, n)).at(name);
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto ends = entry.at("data_offsets").get<std::vector<size_t>>();
  const std::string data = file.substr(8 + n + ends[0], ends[1] - ends[0]);
  return {{shape.at(0), shape.at(1)}, {data.begin(), data.end()}};
}

/// The largest difference of a byte; 256 for pictures of other sizes.
int difference(const Image& a, const Image& b) {
  if (a.size != b.size || a.rgb.size() != b.rgb.size()) return 256;
  int most = 0;
  for (size_t i = 0; i < a.rgb.size(); ++i) most = std::max(most, std::abs(a.rgb[i] - b.rgb[i]));
  return most;
}

std::string message_of_image(std::string_view bytes) {
  try {
    decode_image(bytes);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

class ImageFileTest : public testing::TestWithParam<std::string> {};

TEST_P(ImageFileTest, has_the_pixels_of_the_reference) {
  const std::string bytes = bytes_of(GetParam());
  EXPECT_EQ(difference(decode_image(bytes), expected(GetParam())), 0);
}

INSTANTIATE_TEST_SUITE_P(Files, ImageFileTest,
                         testing::Values("shrunk.png", "grown.jpg", "grey.png", "bits.png", "palette.png", "alpha.png",
                                         "grey_alpha.png", "deep.png", "grey.jpg", "cmyk.jpg", "progressive.jpg",
                                         "turned.png", "turned_2.jpg", "turned_3.jpg", "turned_4.jpg", "turned_5.jpg",
                                         "turned_6.jpg", "turned_7.jpg", "turned_8.jpg", "wide.png", "slender.png",
                                         "tall.png", "half.webp", "exact.webp", "alpha.webp", "turned.webp"),
                         [](const auto& file) {
                           std::string name = file.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(Resize, gives_the_bytes_of_the_reference) {
  const Image image = decode_image(bytes_of("shrunk.png"));
  for (const ImageSize size : {ImageSize{16, 32}, {47, 32}, {50, 61}, {70, 13}, {1, 1}}) {
    const std::string name = "shrunk.png to " + std::to_string(size.height) + " x " + std::to_string(size.width);
    EXPECT_EQ(difference(resized(image, size, kBicubic), expected(name)), 0) << name;
  }
  EXPECT_EQ(difference(resized(image, image.size, kBicubic), image), 0);
  for (const auto& [kind, kernel] : {std::pair{"bilinear", kBilinear}, {"lanczos", kLanczos}})
    for (const ImageSize size : {ImageSize{16, 32}, {70, 13}}) {
      const std::string name =
          "shrunk.png to " + std::to_string(size.height) + " x " + std::to_string(size.width) + ", " + kind;
      EXPECT_EQ(difference(resized(image, size, kernel), expected(name)), 0) << name;
    }
}

TEST(Images, broken_files_are_refused_in_one_line) {
  EXPECT_EQ(message_of_image(""), "is no PNG, JPEG or WebP picture");
  EXPECT_EQ(message_of_image("GIF89a"), "is no PNG, JPEG or WebP picture");
  EXPECT_EQ(message_of_image(std::string("RIFF\x10\0\0\0WEBPVP8 ", 16)), "WebP: is broken or cut short");
  for (const char* name : {"shrunk.png", "grown.jpg", "progressive.jpg", "cmyk.jpg", "palette.png", "half.webp",
                           "exact.webp", "turned.webp"}) {
    const std::string whole = bytes_of(name);
    for (size_t n = 8; n < whole.size() - 16; n += 7) {
      const std::string message = message_of_image(whole.substr(0, n));
      EXPECT_NE(message, "no error") << name << ", first " << n << " bytes";
      EXPECT_EQ(message.find('\n'), message.npos);
    }
  }
}

TEST(Images, moving_pictures_are_refused) {
  EXPECT_EQ(message_of_image(bytes_of("moving.webp")), "WebP: is animated; a still picture is expected");
}

TEST(Images, large_lossless_pictures_are_refused) {
  const std::string exact = bytes_of("exact.webp").substr(12);  // a VP8L chunk
  const std::string junk(5 << 20, 'x');
  const auto number = [](size_t n) {
    std::string text;
    for (int shift = 0; shift < 32; shift += 8) text += static_cast<char>(n >> shift);
    return text;
  };
  const std::string sizes("\x0d\0\0\x08\0\0", 6);  // 14 x 9, less one
  const std::string chunks =
      "WEBPVP8X" + number(10) + std::string(4, '\0') + sizes + exact + "JUNK" + number(junk.size());
  const std::string file = "RIFF" + number(chunks.size() + junk.size()) + chunks + junk;
  EXPECT_EQ(message_of_image(file), "WebP: has " + std::to_string(file.size()) +
                                        " bytes without loss or with transparency, at most 4194304 are accepted");
}

/// A header of PNG for `width` x `height` grey pixels, with its checksum.
std::string png_header(uint32_t width, uint32_t height, uint32_t crc) {
  std::string out("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  const auto number = [&](uint32_t n) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(n >> shift);
  };
  number(width);
  number(height);
  out += std::string("\x08\0\0\0\0", 5);
  number(crc);
  return out + std::string("\0\0\0\0IDAT\x35\xaf\x06\x1e", 12) + std::string("\0\0\0\0IEND\xae\x42\x60\x82", 12);
}

TEST(Images, sizes_are_checked_before_memory_is_taken) {
  EXPECT_EQ(message_of_image(png_header(60000, 60000, 0xa5b92a9e)),
            "PNG: has 60000 x 60000 pixels, at most 67108864 and an edge of 65535 are accepted");
  EXPECT_EQ(message_of_image(png_header(8000, 8000, 0x239af228)),
            "PNG: is truncated: 57 bytes cannot hold 8000 x 8000 pixels");
  std::string claims = png_header(14, 9, 0);
  claims.insert(33, std::string("\x7a\0\0\x1a"
                                "eXIf",
                                8));
  EXPECT_EQ(message_of_image(claims), "PNG: is truncated: a chunk claims 2046820378 bytes, 20 are left");
  EXPECT_NE(message_of_image(png_header(0, 5, 0x4e2db27d)).find("PNG: "), std::string::npos);
  std::string lossless("RIFF\x18\0\0\0WEBPVP8L\x0c\0\0\0\x2f\xff\xff\xff\x0f", 25);
  EXPECT_EQ(message_of_image(lossless + std::string(7, '\0')),
            "WebP: has 16384 x 16384 pixels, at most 67108864 and an edge of 65535 are accepted");
  std::string large = bytes_of("grown.jpg");
  const size_t frame = large.find("\xff\xc0");
  large.replace(frame + 5, 4, "\xc3\x50\xc3\x50");
  EXPECT_EQ(message_of_image(large),
            "JPEG: has 50000 x 50000 pixels, at most 67108864 and an edge of 65535 are accepted");
  large.replace(frame + 5, 4, std::string(4, '\0'));
  EXPECT_NE(message_of_image(large).find("JPEG: "), std::string::npos);
}

}  // namespace
}  // namespace kvcal
