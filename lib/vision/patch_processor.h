// From a picture to the patches that a tower takes, as an image processor of the reference framework makes them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "vision/image.h"
#include "vision/patches.h"
#include "vision/processor_settings.h"

namespace kvcal {

class PatchProcessor {
 public:
  /// From processor_config.json or preprocessor_config.json of a checkpoint folder. Throws Error where neither is
  /// there, it is another processor's, cuts other patches than `shape`, or has steps that are not known.
  static PatchProcessor load(const std::filesystem::path& folder, const PatchShape& shape);

  /// Of a picture of this size. Throws Error for one that the framework refuses.
  PatchGrid grid_of(const ImageSize& size) const;

  PatchGrid squares(const PatchGrid& grid) const { return squares_of(grid, shape_.merge); }

  /// [patches, values], in squares of merge x merge, each [3, frames, size, size]: F32 values about -1 to 1.
  std::vector<float> patches_of(const Image& image) const;

  /// Everything that patches depend on beside the picture.
  std::string description() const;

 private:
  PatchShape shape_;
  PatchRules rules_;
};

}  // namespace kvcal
