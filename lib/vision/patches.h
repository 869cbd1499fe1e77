// How a picture is cut for a tower, as plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// Image processors of the reference framework.
constexpr std::string_view kClipProcessor = "CLIPImageProcessor", kGemma3Processor = "Gemma3ImageProcessor",
                           kGemma4Processor = "Gemma4ImageProcessor", kGlm4vProcessor = "Glm4vImageProcessor",
                           kGotOcr2Processor = "GotOcr2ImageProcessor", kIdefics3Processor = "Idefics3ImageProcessor",
                           kInternVlChatProcessor = "InternVLChatImageProcessor",  // by its name in servers
    kLlama4Processor = "Llama4ImageProcessor", kLlavaNextProcessor = "LlavaNextImageProcessor",
                           kLlavaOnevisionProcessor = "LlavaOnevisionImageProcessor",
                           kPixtralProcessor = "PixtralImageProcessor", kQwen2VlProcessor = "Qwen2VLImageProcessor",
                           kSmolVlmProcessor = "SmolVLMImageProcessor";

/// What a picture is fitted into, and padded to, before it is cut into tiles of `tile` pixels on a side.
struct CanvasSize {
  int64_t height = 0, width = 0;  // pixels
};
struct Canvases {
  int64_t tile = 0;
  std::vector<CanvasSize> sizes;  // whole tiles; a picture gets the one that it fills best
};

/// How many tiles a picture is cut into, where config.json says so and not the file of an image processor.
struct TileLimits {
  int64_t least = 1, most = 1;
  bool whole = false;  // behind several tiles the whole picture is one more
};

/// What a tower wants: squares of `size` pixels, of which merge x merge become one token, each as many times as a video
/// has frames in a patch.
struct PatchShape {
  int64_t size = 0, merge = 0, frames = 0;
  std::string_view processor{};  // that makes them
  int64_t side = 0;              // patches on each side of every picture, or of its tiles; 0: its own size tells
  Canvases canvases{};           // of a tower that has them
  TileLimits tiles{};            // of kInternVlChatProcessor
  int64_t values() const { return 3 * frames * size * size; }
};

/// Patches of a picture: multiples of `merge`. In memory squares of merge x merge of them follow each other by rows.
/// Tiles of a picture, which are square, lie below each other, by rows, and the whole picture behind them as one more;
/// in front of them where a picture has a canvas.
struct PatchGrid {
  int64_t height = 0, width = 0;
  int64_t tile_columns = 0;                   // tiles side by side in the picture; 0: it is not cut into several
  int64_t shown_rows = 0, shown_columns = 0;  // of a canvas: its patches, from the middle, that hold the picture
  int64_t n_patches() const { return height * width; }
};

/// Its squares of merge x merge patches, each of which becomes one token.
inline PatchGrid squares_of(const PatchGrid& grid, int64_t merge) {
  return {grid.height / merge, grid.width / merge, grid.tile_columns, grid.shown_rows / merge,
          grid.shown_columns / merge};
}

/// Row and column of patch i.
struct PatchPlace {
  int64_t row, column;
};
inline PatchPlace place_of(int64_t i, const PatchGrid& grid, int64_t merge) {
  const int64_t square = i / (merge * merge), inside = i % (merge * merge), per_row = grid.width / merge;
  return {square / per_row * merge + inside / merge, square % per_row * merge + inside % merge};
}

/// A part of what stands for a picture: a text, and behind it the token of a picture for each of so many rows of the
/// tower.
struct PicturePart {
  std::string text;
  int64_t n_rows = 0;
};

/// What the reference framework's processor makes of a picture beside the tokens of its squares.
struct PictureText {
  std::string_view written, read;          // what a chat template writes for it, and what becomes of that before it is
                                           // tokenized; empty where that is the same
  std::vector<std::string_view> tokens{};  // in the texts of `parts`, that the tokenizer has to know; none: no texts
  std::function<std::vector<PicturePart>(const PatchGrid& squares)> parts{};  // absent: a row for each square
  bool in_front = false;  // of a message's texts in a chat, each in a line, where templates take one text
};
inline std::vector<PicturePart> parts_of(const PictureText& text, const PatchGrid& squares) {
  return text.parts ? text.parts(squares) : std::vector<PicturePart>{{{}, squares.n_patches()}};
}

/// A picture of a prompt.
struct Picture {
  std::shared_ptr<const std::string> bytes;  // of its file
  PatchGrid grid;
};

}  // namespace kvcal
