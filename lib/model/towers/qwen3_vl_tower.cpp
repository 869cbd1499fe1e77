// Projected patches get a learned position, interpolated between those of a square; blocks have layer norm and see the
// whole picture; mergers, also of deepstack, norm patches or whole squares (docs/model-notes.md, "Images").
#include "model/towers/qwen3_vl_tower.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "model/config_reading.h"
#include "model/towers/qwen_tower_parts.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr int kDeepstackDefault[] = {8, 16, 24};

/// Where a position of a line of `n` lies among those of a line of `side`, both ends on each other.
struct Between {
  int64_t low, high;
  float share;  // of the high one
};
Between between(int64_t i, int64_t n, int64_t side) {
  const float at =
      static_cast<float>(i) * static_cast<float>(side - 1) / static_cast<float>(std::max<int64_t>(n - 1, 1));
  const auto low = static_cast<int64_t>(std::floor(at));
  return {low, std::min(low + 1, side - 1), at - static_cast<float>(low)};
}

class Input final : public TowerPart {
 public:
  Input(const QwenTowerDims& dims, int64_t n_positions, WeightLoader& loader, WeightBinder& w)
      : dims_(dims),
        n_positions_(n_positions),
        projection_(load_patch_projection(dims, loader, w, Bias::Present)),
        table_(static_cast<size_t>(n_positions * dims.hidden)) {
    const Tensor table = w("pos_embed.weight", {n_positions, dims.hidden});
    convert_to_float(table.dtype, table.data, table_.data(), table_.size());
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = op.linear(x, projection_);
    const Storage positions(y.shape, y.dtype);
    std::vector<float> row(static_cast<size_t>(dims_.hidden));
    for (int64_t i = 0; i < grid.n_patches(); ++i) {
      interpolate(i, grid, row);
      const Tensor to = positions.tensor().rows(i, 1);
      if (to.dtype == DType::F32) {
        std::copy(row.begin(), row.end(), to.as<float>());
      } else {
        convert_to_bf16(DType::F32, row.data(), to.as<bf16>(), row.size());
      }
    }
    return op.add(y, op.upload(positions.tensor()));
  }

 private:
  void interpolate(int64_t patch, const PatchGrid& grid, std::vector<float>& row) const {
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(n_positions_)));
    const PatchPlace place = place_of(patch, grid, dims_.patches.merge);
    const Between y = between(place.row, grid.height, side), x = between(place.column, grid.width, side);
    const auto entry = [&](int64_t r, int64_t c) { return table_.data() + (r * side + c) * dims_.hidden; };
    const float* corners[] = {entry(y.low, x.low), entry(y.low, x.high), entry(y.high, x.low), entry(y.high, x.high)};
    const float shares[] = {(1 - y.share) * (1 - x.share), (1 - y.share) * x.share, y.share * (1 - x.share),
                            y.share * x.share};
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = 0;
      for (size_t corner = 0; corner < 4; ++corner) row[i] += corners[corner][i] * shares[corner];
    }
  }

  const QwenTowerDims& dims_;
  int64_t n_positions_;
  Linear projection_;         // [hidden, patch]
  std::vector<float> table_;  // [positions, hidden]
};

class Qwen3VlBlock final : public TowerPart {
 public:
  Qwen3VlBlock(const QwenTowerDims& dims, const RopeSpec& rope, Activation act, WeightLoader& loader, WeightBinder w)
      : merge_(dims.patches.merge),
        norm1_(load_layer_norm(loader, w, "norm1", dims.hidden, kQwenTowerEps)),
        norm2_(load_layer_norm(loader, w, "norm2", dims.hidden, kQwenTowerEps)),
        attention_(dims, rope, loader, w),
        mlp_(loader.load_mlp(projection(w, "mlp.linear_fc1", dims.ffn, dims.hidden, Bias::Present),
                             projection(w, "mlp.linear_fc2", dims.hidden, dims.ffn, Bias::Present), act)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = op.add(x, attention_.forward(op, norm1_.forward(op, x), whole_picture(grid, merge_)));
    return op.add(y, op.glu_mlp(norm2_.forward(op, y), mlp_));
  }

 private:
  int64_t merge_;
  Norm norm1_, norm2_;  // [hidden]
  PatchAttention attention_;
  GluWeights mlp_;
};

std::unique_ptr<TowerPart> load_merger(const QwenTowerDims& dims, int64_t norm_width, WeightLoader& loader,
                                       WeightBinder w) {
  Norm norm = load_layer_norm(loader, w, "norm", norm_width, kQwenTowerEps);
  return std::make_unique<PatchMerger>(std::move(norm), norm_width, dims.merged(),
                                       load_merger_mlp(dims, loader, w, "linear_fc1", "linear_fc2"));
}

struct Dims : QwenTowerDims {
  int64_t n_positions = 0;
  Activation act = Activation::GeluTanh;
};

class Qwen3VlTower final : public VisionTower {
 public:
  Qwen3VlTower(const Dims& dims, TowerSpec spec) : dims_(dims), rope_(qwen_tower_rope(dims)) {
    spec_ = std::move(spec);
  }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Input>(dims_, dims_.n_positions, loader, w);
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Qwen3VlBlock>(dims_, rope_, dims_.act, loader,
                                          w.at("blocks." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return load_merger(dims_, dims_.hidden, loader, w.at("merger."));
  }
  std::unique_ptr<TowerPart> load_deepstack(size_t stream, WeightLoader& loader, WeightBinder& w) const override {
    return load_merger(dims_, dims_.merged(), loader, w.at("deepstack_merger_list." + std::to_string(stream) + "."));
  }

 private:
  Dims dims_;
  RopeSpec rope_;
};

Dims read_dims(const Json& vision, const ModelSpec& model) {
  Dims d;
  d.hidden = read_size(vision, "hidden_size", 1152);
  d.ffn = read_size(vision, "intermediate_size", 4304);
  d.out_hidden = read_size(vision, "out_hidden_size", 3584);
  d.n_positions = read_size(vision, "num_position_embeddings", 2304);
  d.act = read_activation(vision, "hidden_act", d.act);
  read_heads_and_patches(vision, 16, d);
  check_tower(vision, d, {"hidden_size", "out_hidden_size"}, model);
  const int64_t side = std::llround(std::sqrt(static_cast<double>(d.n_positions)));
  expect_size("num_position_embeddings", side * side == d.n_positions, d.n_positions, "a square");
  return d;
}

std::vector<int> read_streams(const Json& vision, const ModelSpec& model, int n_blocks) {
  if (model.n_deepstack == 0) return {};
  std::vector<int> after(std::begin(kDeepstackDefault), std::end(kDeepstackDefault));
  if (const Json* given = find_member(vision, "deepstack_visual_indexes")) {
    after.clear();
    for (const Json& index : *given)
      after.push_back(index.is_number_unsigned() && index < n_blocks ? index.get<int>() : n_blocks);
  }
  if (after.back() >= n_blocks || !std::ranges::is_sorted(after, std::less_equal<>()))
    fail("deepstack_visual_indexes is no ascending list of blocks of the tower");
  return after;
}

}  // namespace

std::unique_ptr<VisionTower> read_qwen3_vl_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  const Dims dims = read_dims(vision, model);
  TowerSpec spec = qwen_tower_spec(config, dims, read_size(vision, "depth", 27));
  spec.deepstack_after = read_streams(vision, model, spec.n_blocks);
  return std::make_unique<Qwen3VlTower>(dims, std::move(spec));
}

}  // namespace kvcal
