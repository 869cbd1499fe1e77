// Patches without a position, then blocks like a language model's, in which all patches of a picture see each other:
// half of a head's pairs turn by the row, half by the column (docs/model-notes.md, "Images").
#include "model/towers/pixtral_tower.h"

#include <utility>

#include "model/config_reading.h"
#include "model/rope.h"
#include "model/towers/patch_rows.h"

namespace kvcal {
namespace {

constexpr float kEps = 1e-5f;  // of all norms of the tower
constexpr std::string_view kRowEnd = "[IMG_BREAK]", kEnd = "[IMG_END]";

std::vector<PicturePart> parts_by_row(const PatchGrid& squares) {
  std::vector<PicturePart> parts = {{{}, squares.width}};
  for (int64_t row = 1; row < squares.height; ++row) parts.push_back({std::string(kRowEnd), squares.width});
  parts.push_back({std::string(kEnd), 0});
  return parts;
}

Norm rms_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t n) {
  return {Norm::Kind::Rms, kEps, loader.load_gain(w(name, {n}), Gain::Plain), {}};
}

class PixtralInput final : public TowerPart {
 public:
  PixtralInput(const PixtralDims& dims, WeightLoader& loader, WeightBinder w)
      : norm_(rms_norm(loader, w, "ln_pre.weight", dims.layers.hidden)) {
    const int64_t hidden = dims.layers.hidden, size = dims.patches.size;
    const Tensor kernel = w("patch_conv.weight", {hidden, 3, size, size});
    projection_ = loader.load_linear(kernel.reshaped({hidden, dims.patches.values()}));
  }
  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    return norm_.forward(op, op.linear(x, projection_));
  }

 private:
  Linear projection_;  // [hidden, patch]
  Norm norm_;          // [hidden]
};

class PixtralBlock final : public TowerPart {
 public:
  PixtralBlock(const PixtralDims& dims, WeightLoader& loader, WeightBinder w)
      : dims_(dims),
        norm1_(rms_norm(loader, w, "attention_norm.weight", dims.layers.hidden)),
        norm2_(rms_norm(loader, w, "ffn_norm.weight", dims.layers.hidden)),
        mlp_(loader, w.at("feed_forward."), dims.layers.hidden, dims.layers.ffn, Bias::None, dims.act) {
    const int64_t h = dims.layers.hidden;
    const HostLinear parts[] = {projection(w, "attention.q_proj", h, h), projection(w, "attention.k_proj", h, h),
                                projection(w, "attention.v_proj", h, h)};
    qkv_ = loader.load_linears(parts);
    out_ = load_projection(loader, w, "attention.o_proj", h, h);
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const Tensor y = op.add(x, attend_to_all(op, norm1_.forward(op, x), grid));
    return op.add(y, mlp_.forward(op, norm2_.forward(op, y)));
  }

 private:
  Tensor attend_to_all(Ops& op, const Tensor& x, const PatchGrid& grid) const {
    const int64_t d = dims_.layers.head_dim;
    const PatchRows rows = whole_picture(grid, dims_.patches.merge);
    const Tensor turns = op.rope_table(rows.positions(), x.dim(0), dims_.rope);
    const HeadsPart parts[] = {{d, {}, true}, {d, {}, true}, {d, {}, false}};
    const auto qkv = op.project_heads(x, qkv_, {parts, kEps, turns, dims_.rope});
    return op.linear(attend_within(op, qkv, rows.spans), out_);
  }

  const PixtralDims& dims_;
  Norm norm1_, norm2_;  // [hidden]
  LinearGroup qkv_;     // [hidden, hidden] x3
  Linear out_;          // [hidden, hidden]
  GluMlp mlp_;
};

/// Frequencies of a whole head: every second one is of rows, the others of columns.
RopeSpec read_axial_rope(const Json& vision, int64_t head_dim) {
  const double theta = read_axial_theta(vision, 10000);
  const std::vector<float> all = read_rope(Json::object(), head_dim, {theta}).inverse_frequency;
  RopeSpec rope;
  rope.rotary_dim = head_dim;
  for (int axis = 0; axis < 2; ++axis)
    for (size_t i = static_cast<size_t>(axis); i < all.size(); i += 2) {
      rope.inverse_frequency.push_back(all[i]);
      rope.axis.push_back(axis);
    }
  return rope;
}

void check_sizes(const Json& vision, const PixtralDims& dims) {
  const DecoderDims& d = dims.layers;
  const int64_t channels = read_size(vision, "num_channels", 3), divisor = 4 * d.n_heads;
  expect_size("num_channels", channels == 3, channels, "3");
  expect_size("hidden_size", d.hidden % divisor == 0, d.hidden, "a multiple of " + std::to_string(divisor));
  const int64_t head_dim = read_size(vision, "head_dim", d.head_dim);
  expect_size("head_dim", head_dim == d.head_dim, head_dim, std::to_string(d.head_dim));
  expect_size("patch_size", dims.patches.size <= 256, dims.patches.size, "at most 256");
  expect_size("spatial_merge_size", dims.patches.merge <= 16, dims.patches.merge, "at most 16");
}

}  // namespace

PixtralDims read_pixtral(const Json& config, int64_t merge, int64_t feature_layer) {
  const Json& vision = vision_config(config);
  PixtralDims dims;
  DecoderDims& d = dims.layers;
  d.hidden = read_size(vision, "hidden_size", 1024);
  d.ffn = read_size(vision, "intermediate_size", 4096);
  d.n_layers = read_size(vision, "num_hidden_layers", 24);
  d.n_heads = d.n_kv_heads = read_size(vision, "num_attention_heads", 16);
  d.head_dim = d.hidden / d.n_heads;
  dims.patches = {read_size(vision, "patch_size", 16), merge, 1, kPixtralProcessor};
  check_sizes(vision, dims);
  dims.act = read_activation(vision, "hidden_act", dims.act);
  dims.rope = read_axial_rope(vision, d.head_dim);
  const int64_t layer = get_int_or(config, "vision_feature_layer", feature_layer);
  if (layer != -1) fail("vision_feature_layer is " + std::to_string(layer) + ", expected -1");
  return dims;
}

PixtralTower::PixtralTower(PixtralDims dims, const ModelSpec& model) : dims_(std::move(dims)) {
  const DecoderDims& d = dims_.layers;
  spec_.token = model.placeholders.front();
  spec_.text = {{}, {}, {kRowEnd, kEnd}, parts_by_row};
  spec_.patches = dims_.patches;
  spec_.hidden = d.hidden;
  spec_.activations = 12 * d.hidden + 3 * d.ffn + 2 * dims_.patches.values();
  spec_.n_blocks = static_cast<int>(d.n_layers);
  spec_.prefixes = {"", "model."};
  spec_.modules = {"multi_modal_projector.", "vision_tower."};
  spec_.first = "vision_tower.patch_conv.weight";
}

std::unique_ptr<TowerPart> PixtralTower::load_input(WeightLoader& loader, WeightBinder& w) const {
  return std::make_unique<PixtralInput>(dims_, loader, w.at("vision_tower."));
}

std::unique_ptr<TowerPart> PixtralTower::load_block(int block, WeightLoader& loader, WeightBinder& w) const {
  return std::make_unique<PixtralBlock>(dims_, loader,
                                        w.at("vision_tower.transformer.layers." + std::to_string(block) + "."));
}

}  // namespace kvcal
