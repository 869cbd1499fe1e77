// Projected patches are normed and get a learned position, interpolated between those of a square; blocks have RMSNorm
// and gated feed-forward and see the whole picture; a square of patches becomes one row, which is projected, normed and
// goes through a gated layer (docs/model-notes.md, "Images").
#include "model/towers/glm4v_tower.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/config_reading.h"
#include "model/layers/weight_rows.h"
#include "model/towers/qwen_tower_parts.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr float kMergerEps = 1e-5f;  // not of the config

struct Dims : QwenTowerDims {
  int64_t side = 0;        // learned positions on each side of a square of them
  int64_t merger_ffn = 0;  // of the gated layer behind the blocks
  float eps = 0;           // of norms of patches
  Activation act = Activation::Silu;
};

/// The four positions of a line of `side` around place i of a line of `n`, and how much each counts: bicubic, with
/// a = -3/4, without antialias; beyond an end stands the last one.
struct Taps {
  std::array<int64_t, 4> at;
  std::array<float, 4> weight;
};

Taps taps_of(int64_t i, int64_t n, int64_t side) {
  constexpr float a = -0.75f;
  const auto near = [](float x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](float x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const float normed = (static_cast<float>(i) + 0.5f) / static_cast<float>(n) * 2 - 1;
  const float place = ((normed + 1) * static_cast<float>(side) - 1) / 2, first = std::floor(place);
  const float t = place - first;
  Taps taps{{}, {far(t + 1), near(t), near(1 - t), far(2 - t)}};
  for (size_t k = 0; k < 4; ++k)
    taps.at[k] = std::clamp<int64_t>(static_cast<int64_t>(first) - 1 + static_cast<int64_t>(k), 0, side - 1);
  return taps;
}

Norm rms_norm(const Dims& dims, WeightLoader& loader, WeightBinder& w, const std::string& name) {
  return {Norm::Kind::Rms, dims.eps, loader.load_gain(w(name + ".weight", {dims.hidden}), Gain::Plain), {}};
}

class Glm4vInput final : public TowerPart {
 public:
  Glm4vInput(const Dims& dims, WeightLoader& loader, WeightBinder& w)
      : dims_(dims),
        projection_(load_patch_projection(dims, loader, w, Bias::Present)),
        norm_(rms_norm(dims, loader, w, "post_conv_layernorm")) {
    const Tensor table = w("embeddings.position_embedding.weight", {dims.side * dims.side, dims.hidden});
    table_.resize(static_cast<size_t>(table.elements()));
    convert_to_float(table.dtype, table.data, table_.data(), table_.size());
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = norm_.forward(op, op.linear(x, projection_));
    std::vector<float> positions;
    for (int64_t i = 0; i < grid.n_patches(); ++i) {
      const PatchPlace place = place_of(i, grid, dims_.patches.merge);
      append(taps_of(place.row, grid.height, dims_.side), taps_of(place.column, grid.width, dims_.side), positions);
    }
    return op.add(y, on_device(op, positions, y.shape));
  }

 private:
  void append(const Taps& rows, const Taps& columns, std::vector<float>& positions) const {
    for (int64_t c = 0; c < dims_.hidden; ++c) {
      float sum = 0;
      for (size_t row = 0; row < 4; ++row) {
        float line = 0;
        for (size_t column = 0; column < 4; ++column) {
          const int64_t entry = rows.at[row] * dims_.side + columns.at[column];
          line += table_[static_cast<size_t>(entry * dims_.hidden + c)] * columns.weight[column];
        }
        sum += line * rows.weight[row];
      }
      positions.push_back(sum);
    }
  }

  const Dims& dims_;
  Linear projection_;         // [hidden, patch]
  Norm norm_;                 // [hidden]
  std::vector<float> table_;  // [side, side, hidden]
};

class Glm4vBlock final : public TowerPart {
 public:
  Glm4vBlock(const Dims& dims, const RopeSpec& rope, WeightLoader& loader, WeightBinder w)
      : merge_(dims.patches.merge),
        norm1_(rms_norm(dims, loader, w, "norm1")),
        norm2_(rms_norm(dims, loader, w, "norm2")),
        attention_(dims, rope, loader, w),
        mlp_(loader, w.at("mlp."), dims.hidden, dims.ffn, Bias::None, dims.act) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = op.add(x, attention_.forward(op, norm1_.forward(op, x), whole_picture(grid, merge_)));
    return op.add(y, mlp_.forward(op, norm2_.forward(op, y)));
  }

 private:
  int64_t merge_;
  Norm norm1_, norm2_;  // [hidden]
  PatchAttention attention_;
  GluMlp mlp_;
};

class Glm4vOutput final : public TowerPart {
 public:
  Glm4vOutput(const Dims& dims, WeightLoader& loader, WeightBinder& w)
      : merged_(dims.merged()),
        last_norm_(rms_norm(dims, loader, w, "post_layernorm")),
        mlp_(loader, w.at("merger."), dims.out_hidden, dims.merger_ffn, Bias::None, dims.act) {
    const int64_t out = dims.out_hidden, m = dims.patches.merge;
    const Tensor kernel = w("downsample.weight", {out, dims.hidden, m, m}).reshaped({out, merged_});
    square_ = loader.load_linear(swapped_columns(kernel, dims.hidden, m * m).tensor(), w("downsample.bias", {out}));
    WeightBinder merger = w.at("merger.");
    projection_ = load_projection(loader, merger, "proj", out, out);
    norm_ = load_layer_norm(loader, merger, "post_projection_norm", out, kMergerEps);
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor squares = last_norm_.forward(op, x).reshaped({x.elements() / merged_, merged_});
    const Tensor normed = norm_.forward(op, op.linear(op.linear(squares, square_), projection_));
    return mlp_.forward(op, op.activate(normed, Activation::Gelu));
  }

 private:
  int64_t merged_;
  Norm last_norm_;     // [hidden]
  GluMlp mlp_;         // of [out]
  Linear square_;      // [out, merged]
  Linear projection_;  // [out, out]
  Norm norm_;          // [out]
};

class Glm4vTower final : public VisionTower {
 public:
  Glm4vTower(const Dims& dims, TowerSpec spec) : dims_(dims), rope_(qwen_tower_rope(dims)) { spec_ = std::move(spec); }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Glm4vInput>(dims_, loader, w);
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Glm4vBlock>(dims_, rope_, loader, w.at("blocks." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Glm4vOutput>(dims_, loader, w);
  }

 private:
  Dims dims_;
  RopeSpec rope_;
};

}  // namespace

std::unique_ptr<VisionTower> read_glm4v_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  Dims dims;
  read_heads_and_patches(vision, 14, dims);
  dims.patches.processor = kGlm4vProcessor;
  dims.n_heads = read_size(vision, "num_heads", 12);
  dims.hidden = read_size(vision, "hidden_size", 1536);
  dims.ffn = dims.out_hidden = read_size(vision, "out_hidden_size", 4096);
  dims.merger_ffn = read_size(vision, "intermediate_size", 13696);
  dims.eps = static_cast<float>(get_number_or(vision, "rms_norm_eps", 1e-5));
  dims.act = read_activation(vision, "hidden_act", dims.act);
  dims.qkv = read_bias(vision, "attention_bias");
  dims.out = Bias::None;
  check_tower(vision, dims, {"hidden_size", "out_hidden_size"}, model);
  const int64_t image = read_size(vision, "image_size", 336);
  dims.side = image / dims.patches.size;
  expect_size("image_size", dims.side >= 1 && dims.side <= 1024, image,
              "1 to 1,024 patches of " + std::to_string(dims.patches.size));
  return std::make_unique<Glm4vTower>(dims, qwen_tower_spec(config, dims, read_size(vision, "depth", 24)));
}

}  // namespace kvcal
