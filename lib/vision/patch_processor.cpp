#include "vision/patch_processor.h"

#include <algorithm>
#include <string>

#include "vision/clip_processor.h"
#include "vision/gemma3_processor.h"
#include "vision/gemma4_processor.h"
#include "vision/got_ocr2_processor.h"
#include "vision/idefics3_processor.h"
#include "vision/internvl_chat_processor.h"
#include "vision/llama4_processor.h"
#include "vision/llava_next_processor.h"
#include "vision/pixtral_processor.h"
#include "vision/qwen2_vl_processor.h"

namespace kvcal {
namespace {

constexpr int64_t kMostPatches = int64_t{1} << 20;

struct ProcessorOf {
  std::string_view name;
  PatchRules (*read)(const Json& settings, const PatchShape& shape);
  bool has_file = true;  // with its settings
};

constexpr ProcessorOf kProcessors[] = {{kClipProcessor, read_clip_processor},
                                       {kGemma3Processor, read_gemma3_processor},
                                       {kGemma4Processor, read_gemma4_processor},
                                       {kGlm4vProcessor, read_glm4v_processor},
                                       {kGotOcr2Processor, read_got_ocr2_processor},
                                       {kIdefics3Processor, read_idefics3_processor},
                                       {kInternVlChatProcessor, read_internvl_chat_processor, false},
                                       {kLlama4Processor, read_llama4_processor},
                                       {kLlavaNextProcessor, read_llava_next_processor},
                                       {kLlavaOnevisionProcessor, read_llava_onevision_processor},
                                       {kPixtralProcessor, read_pixtral_processor},
                                       {kQwen2VlProcessor, read_qwen2_vl_processor},
                                       {kSmolVlmProcessor, read_idefics3_processor}};

/// The image processor's own object: published files have it alone, transformers 5 saves all processors in one.
Json read_settings(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (const auto all = folder / "processor_config.json"; std::filesystem::exists(all, ignored)) {
    const Json config = read_json_file(all);
    if (const Json* image = find_member(config, "image_processor"); image && image->is_object()) return *image;
  }
  const auto own = folder / "preprocessor_config.json";
  if (!std::filesystem::exists(own, ignored))
    fail("pictures need preprocessor_config.json, which " + quoted(folder.string()) + " has not");
  return read_json_file(own);
}

}  // namespace

PatchProcessor PatchProcessor::load(const std::filesystem::path& folder, const PatchShape& shape) {
  const ProcessorOf& of = *std::ranges::find(kProcessors, shape.processor, &ProcessorOf::name);
  const Json settings = of.has_file ? read_settings(folder) : Json::object();
  return while_doing("reading the image processor of " + quoted(folder.string()), [&] {
    PatchProcessor p;
    p.shape_ = shape;
    p.rules_ = of.read(settings, shape);
    return p;
  });
}

PatchGrid PatchProcessor::grid_of(const ImageSize& size) const {
  const PatchGrid grid = rules_.grid_of(size);
  if (grid.n_patches() < 1 || grid.n_patches() > kMostPatches)
    fail("becomes " + std::to_string(grid.n_patches()) + " patches, expected 1 to " + std::to_string(kMostPatches));
  // A tower's patches may be large, whatever the picture.
  if (const int64_t pixels = grid.n_patches() * shape_.size * shape_.size; pixels > kMostPixels)
    fail("becomes " + std::to_string(pixels) + " pixels, expected at most " + std::to_string(kMostPixels));
  return grid;
}

std::vector<float> PatchProcessor::patches_of(const Image& given) const {
  const PatchGrid grid = grid_of(given.size);
  const int64_t size = shape_.size, frames = shape_.frames;
  const ImageSize cut = {grid.height * size, grid.width * size};
  const Image image = rules_.arranged ? rules_.arranged(given) : resized(given, cut, rules_.kernel);
  const int64_t top = (image.size.height - cut.height) / 2, left = (image.size.width - cut.width) / 2;
  std::vector<float> out;
  out.reserve(static_cast<size_t>(grid.n_patches() * shape_.values()));
  const auto patch = [&](int64_t row, int64_t column) {
    for (size_t c = 0; c < 3; ++c)
      for (int64_t frame = 0; frame < frames; ++frame)
        for (int64_t y = 0; y < size; ++y)
          for (int64_t x = 0; x < size; ++x) {
            const int64_t pixel = (top + row * size + y) * image.size.width + left + column * size + x;
            out.push_back(rules_.colors[c][image.rgb[static_cast<size_t>(pixel) * 3 + c]]);
          }
  };
  for (int64_t i = 0; i < grid.n_patches(); ++i) {
    const PatchPlace place = place_of(i, grid, shape_.merge);
    patch(place.row, place.column);
  }
  return out;
}

std::string PatchProcessor::description() const {
  Json all = {shape_.size, shape_.merge, shape_.frames};
  all.insert(all.end(), rules_.sizes.begin(), rules_.sizes.end());
  for (const ColorTable& color : rules_.colors) all.insert(all.end(), {color.front(), color.back()});
  return all.dump();
}

}  // namespace kvcal
