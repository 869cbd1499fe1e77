// How a picture is cut for a tower, as plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kvcal {

/// Image processors of the reference framework.
constexpr std::string_view kClipProcessor = "CLIPImageProcessor", kGemma3Processor = "Gemma3ImageProcessor",
                           kGotOcr2Processor = "GotOcr2ImageProcessor", kPixtralProcessor = "PixtralImageProcessor",
                           kQwen2VlProcessor = "Qwen2VLImageProcessor";

/// What a tower wants: squares of `size` pixels, of which merge x merge become one token, each as many times as a video
/// has frames in a patch.
struct PatchShape {
  int64_t size = 0, merge = 0, frames = 0;
  std::string_view processor{};  // that makes them
  int64_t side = 0;              // patches on each side of every picture, or of its tiles; 0: its own size tells
  int64_t values() const { return 3 * frames * size * size; }
};

/// Patches of a picture, whose tiles lie below each other: multiples of `merge`. In memory squares of merge x merge of
/// them follow each other by rows.
struct PatchGrid {
  int64_t height = 0, width = 0;
  int64_t n_patches() const { return height * width; }
};

/// Row and column of patch i.
struct PatchPlace {
  int64_t row, column;
};
inline PatchPlace place_of(int64_t i, const PatchGrid& grid, int64_t merge) {
  const int64_t square = i / (merge * merge), inside = i % (merge * merge), per_row = grid.width / merge;
  return {square / per_row * merge + inside / merge, square % per_row * merge + inside % merge};
}

/// What the reference framework's processor adds around a picture's tokens.
struct PictureText {
  std::string_view written, read;     // what a chat template writes for it, and what becomes of that before it is
                                      // tokenized; empty where that is the same
  std::string_view row_end{}, end{};  // tokens behind each row of its squares, and behind the last; empty: none
};

/// A picture of a prompt.
struct Picture {
  std::shared_ptr<const std::string> bytes;  // of its file
  PatchGrid grid;
};

}  // namespace kvcal
