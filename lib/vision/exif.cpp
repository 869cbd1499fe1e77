#include "vision/image_formats.h"

namespace kvcal {
namespace {

constexpr uint32_t kOrientation = 0x0112, kShort = 3;
constexpr size_t kHeader = 8, kEntry = 12;

// A TIFF block: numbers in the byte order that it begins with, 0 beyond its end.
class Tiff {
 public:
  explicit Tiff(std::string_view bytes) : bytes_(bytes), little_(bytes.starts_with("II")) {}
  bool is_one() const { return (little_ || bytes_.starts_with("MM")) && number(2, 2) == 42; }

  uint32_t number(size_t at, size_t n) const {
    if (at > bytes_.size() || bytes_.size() - at < n) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < n; ++i)
      value = value << 8 | static_cast<unsigned char>(bytes_[at + (little_ ? n - 1 - i : i)]);
    return value;
  }

 private:
  std::string_view bytes_;
  bool little_;
};

}  // namespace

int exif_orientation(std::string_view bytes) {
  const Tiff tiff(bytes);
  if (!tiff.is_one() || bytes.size() < kHeader) return 1;
  const size_t directory = tiff.number(4, 4);
  const size_t n_entries = tiff.number(directory, 2);
  for (size_t i = 0; i < n_entries; ++i) {
    const size_t entry = directory + 2 + i * kEntry;
    if (tiff.number(entry, 2) != kOrientation || tiff.number(entry + 2, 2) != kShort) continue;
    const uint32_t value = tiff.number(entry + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace kvcal
