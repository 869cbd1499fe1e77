// Blocks with RMSNorm and gated feed-forward. In most of them a patch sees those of its window: from the input to the
// merger the squares of a window lie together.
#include "model/towers/qwen2_5_vl_tower.h"

#include <algorithm>
#include <utility>

#include "model/config_reading.h"
#include "model/towers/qwen_tower_parts.h"

namespace kvcal {
namespace {

constexpr int kFullBlocksDefault[] = {7, 15, 23, 31};

/// The squares of a picture window by window, by rows of windows and inside of them; those at the end are smaller.
struct Windows {
  std::vector<int64_t> squares;  // their indexes in the order of a PatchGrid
  std::vector<int64_t> sizes;    // of each window
};

Windows windows_of(const PatchGrid& grid, int64_t merge, int64_t side) {
  const int64_t height = grid.height / merge, width = grid.width / merge;
  Windows windows;
  for (int64_t top = 0; top < height; top += side)
    for (int64_t left = 0; left < width; left += side) {
      const int64_t bottom = std::min(top + side, height), right = std::min(left + side, width);
      for (int64_t row = top; row < bottom; ++row)
        for (int64_t column = left; column < right; ++column) windows.squares.push_back(row * width + column);
      windows.sizes.push_back((bottom - top) * (right - left));
    }
  return windows;
}

struct Dims : QwenTowerDims {
  Activation act = Activation::Silu;
  int64_t window = 0;  // squares on a side
};

Norm rms_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t n) {
  return {Norm::Kind::Rms, kQwenTowerEps, loader.load_gain(w(name, {n}), Gain::Plain), {}};
}

class Qwen25VlInput final : public TowerPart {
 public:
  Qwen25VlInput(const Dims& dims, WeightLoader& loader, WeightBinder& w)
      : dims_(dims), projection_(load_patch_projection(dims, loader, w, Bias::None)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Windows windows = windows_of(grid, dims_.patches.merge, dims_.window);
    const Tensor y = op.linear(x, projection_);
    const Tensor squares = y.reshaped({y.elements() / dims_.merged(), dims_.merged()});
    return op.take_rows(squares, windows.squares).reshaped(y.shape);
  }

 private:
  const Dims& dims_;
  Linear projection_;  // [hidden, patch]
};

enum class Sees : uint8_t { Window, Picture };

class Qwen25VlBlock final : public TowerPart {
 public:
  Qwen25VlBlock(const Dims& dims, const RopeSpec& rope, Sees sees, WeightLoader& loader, WeightBinder w)
      : dims_(dims),
        sees_(sees),
        norm1_(rms_norm(loader, w, "norm1.weight", dims.hidden)),
        norm2_(rms_norm(loader, w, "norm2.weight", dims.hidden)),
        attention_(dims, rope, loader, w),
        mlp_(loader, w.at("mlp."), dims.hidden, dims.ffn, Bias::Present, dims.act) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = op.add(x, attention_.forward(op, norm1_.forward(op, x), rows_of(grid)));
    return op.add(y, mlp_.forward(op, norm2_.forward(op, y)));
  }

 private:
  PatchRows rows_of(const PatchGrid& grid) const {
    const int64_t merge = dims_.patches.merge, unit = merge * merge;
    const Windows windows = windows_of(grid, merge, dims_.window);
    PatchRows rows;
    for (const int64_t square : windows.squares)
      for (int64_t i = 0; i < unit; ++i) rows.places.push_back(place_of(square * unit + i, grid, merge));
    int64_t first = 0;
    for (const int64_t size : windows.sizes) {
      rows.spans.push_back({first, size * unit, 0});
      first += size * unit;
    }
    if (sees_ == Sees::Picture) rows.spans = {{0, grid.n_patches(), 0}};
    return rows;
  }

  const Dims& dims_;
  Sees sees_;
  Norm norm1_, norm2_;  // [hidden]
  PatchAttention attention_;
  GluMlp mlp_;
};

class Qwen25VlOutput final : public TowerPart {
 public:
  Qwen25VlOutput(const Dims& dims, WeightLoader& loader, WeightBinder w)
      : dims_(dims),
        merger_(rms_norm(loader, w, "ln_q.weight", dims.hidden), dims.hidden, dims.merged(),
                load_merger_mlp(dims, loader, w, "mlp.0", "mlp.2")) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Windows windows = windows_of(grid, dims_.patches.merge, dims_.window);
    std::vector<int64_t> row_of(windows.squares.size());  // of each square
    for (size_t row = 0; row < row_of.size(); ++row)
      row_of[static_cast<size_t>(windows.squares[row])] = static_cast<int64_t>(row);
    return op.take_rows(merger_.forward(op, x, grid), row_of);
  }

 private:
  const Dims& dims_;
  PatchMerger merger_;
};

class Qwen25VlTower final : public VisionTower {
 public:
  Qwen25VlTower(const Dims& dims, std::vector<int64_t> full_blocks, TowerSpec spec)
      : dims_(dims), rope_(qwen_tower_rope(dims)), full_blocks_(std::move(full_blocks)) {
    spec_ = std::move(spec);
  }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Qwen25VlInput>(dims_, loader, w);
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    const Sees sees = std::ranges::count(full_blocks_, block) > 0 ? Sees::Picture : Sees::Window;
    return std::make_unique<Qwen25VlBlock>(dims_, rope_, sees, loader, w.at("blocks." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Qwen25VlOutput>(dims_, loader, w.at("merger."));
  }

 private:
  Dims dims_;
  RopeSpec rope_;
  std::vector<int64_t> full_blocks_;
};

Dims read_dims_of_2_5(const Json& vision, const ModelSpec& model) {
  Dims d;
  d.hidden = read_size(vision, "hidden_size", 3584);
  d.ffn = read_size(vision, "intermediate_size", 3420);
  d.out_hidden = read_size(vision, "out_hidden_size", 3584);
  d.act = read_activation(vision, "hidden_act", d.act);
  read_heads_and_patches(vision, 14, d);
  check_tower(vision, d, {"hidden_size", "out_hidden_size"}, model);
  const int64_t pixels = read_size(vision, "window_size", 112), square = d.patches.merge * d.patches.size;
  d.window = pixels / square;
  expect_size("window_size", d.window > 0, pixels, "at least " + std::to_string(square));
  return d;
}

/// An index behind the last block has no effect, as in the reference framework.
std::vector<int64_t> read_full_blocks(const Json& vision) {
  std::vector<int64_t> blocks(std::begin(kFullBlocksDefault), std::end(kFullBlocksDefault));
  const Json* given = find_member(vision, "fullatt_block_indexes");
  if (!given) return blocks;
  if (!given->is_array() || !std::ranges::all_of(*given, &Json::is_number_unsigned))
    fail("fullatt_block_indexes is no list of blocks");
  return given->get<std::vector<int64_t>>();
}

}  // namespace

std::unique_ptr<VisionTower> read_qwen2_5_vl_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  const Dims dims = read_dims_of_2_5(vision, model);
  TowerSpec spec = qwen_tower_spec(config, dims, read_size(vision, "depth", 32));
  return std::make_unique<Qwen25VlTower>(dims, read_full_blocks(vision), std::move(spec));
}

}  // namespace kvcal
