// Patches are projected and get a learned position, interpolated between those of a square; blocks with layer norm turn
// half of a head's pairs by the row of a patch and half by its column, and see the whole picture; then merge x merge
// patches become one row (docs/model-notes.md, "Images").
#include "model/qwen3_vl_tower.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/config_reading.h"
#include "model/decoder_parts.h"
#include "model/rope.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr float kEps = 1e-6f;
constexpr double kTheta = 10000;
constexpr int kDeepstackDefault[] = {8, 16, 24};

struct Dims {
  int64_t hidden, ffn, n_heads, out_hidden, n_positions;
  Activation act;
  PatchShape patches;
  int64_t head_dim() const { return hidden / n_heads; }
  int64_t merged() const { return hidden * patches.merge * patches.merge; }
};

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
  Input(const Dims& dims, WeightLoader& loader, WeightBinder& w)
      : dims_(dims), table_(static_cast<size_t>(dims.n_positions * dims.hidden)) {
    const auto& [size, merge, frames] = dims.patches;
    const Tensor kernel = w("patch_embed.proj.weight", {dims.hidden, 3, frames, size, size});
    projection_ = loader.load_linear(kernel.reshaped({dims.hidden, dims.patches.values()}),
                                     w("patch_embed.proj.bias", {dims.hidden}));
    const Tensor table = w("pos_embed.weight", {dims.n_positions, dims.hidden});
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
    const auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(dims_.n_positions)));
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

  Dims dims_;
  Linear projection_;         // [hidden, patch]
  std::vector<float> table_;  // [positions, hidden]
};

/// The first half of the pairs by row 0 of the positions, the second by row 1, with the same frequencies.
RopeSpec rope_of(const Dims& dims) {
  RopeSpec rope;
  rope.rotary_dim = dims.head_dim();
  const std::vector<float> frequencies = read_rope(Json::object(), dims.head_dim() / 2, {kTheta}).inverse_frequency;
  for (int axis = 0; axis < 2; ++axis) {
    rope.inverse_frequency.insert(rope.inverse_frequency.end(), frequencies.begin(), frequencies.end());
    rope.axis.insert(rope.axis.end(), frequencies.size(), axis);
  }
  return rope;
}

class TowerBlock final : public TowerPart {
 public:
  TowerBlock(const Dims& dims, const RopeSpec& rope, WeightLoader& loader, WeightBinder w)
      : dims_(dims),
        rope_(rope),
        norm1_(load_layer_norm(loader, w, "norm1", dims.hidden, kEps)),
        norm2_(load_layer_norm(loader, w, "norm2", dims.hidden, kEps)) {
    const int64_t h = dims.hidden;
    const HostLinear all = projection(w, "attn.qkv", 3 * h, h, Bias::Present);
    const HostLinear parts[] = {all.rows(0, h), all.rows(h, h), all.rows(2 * h, h)};
    qkv_ = loader.load_linears(parts);
    out_ = load_projection(loader, w, "attn.proj", h, h, Bias::Present);
    mlp_ = loader.load_mlp(projection(w, "mlp.linear_fc1", dims.ffn, h, Bias::Present),
                           projection(w, "mlp.linear_fc2", h, dims.ffn, Bias::Present), dims.act);
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const int64_t n = grid.n_patches(), d = dims_.head_dim();
    std::vector<int32_t> positions(static_cast<size_t>(2 * n));
    for (int64_t i = 0; i < n; ++i) {
      const PatchPlace place = place_of(i, grid, dims_.patches.merge);
      positions[static_cast<size_t>(i)] = static_cast<int32_t>(place.row);
      positions[static_cast<size_t>(n + i)] = static_cast<int32_t>(place.column);
    }
    const Tensor turns = op.rope_table(positions, n, rope_);
    const HeadsPart parts[] = {{d, {}, true}, {d, {}, true}, {d, {}, false}};
    const auto qkv = op.project_heads(norm1_.forward(op, x), qkv_, {parts, kEps, turns, rope_});
    const std::vector<int32_t> last(static_cast<size_t>(n), static_cast<int32_t>(n - 1));  // every patch sees all
    const Span whole[] = {{0, n, 0}};
    KvRows* const kept[] = {nullptr};
    AttentionSpec attention;
    attention.scale = 1.0f / std::sqrt(static_cast<float>(d));
    attention.last_keys = last;
    const Tensor o = op.attention(qkv[0], qkv[1], qkv[2], whole, kept, attention);
    const Tensor y = op.add(x, op.linear(o.reshaped({n, dims_.hidden}), out_));
    return op.add(y, op.glu_mlp(norm2_.forward(op, y), mlp_));
  }

 private:
  const Dims& dims_;
  const RopeSpec& rope_;
  Norm norm1_, norm2_;  // [hidden]
  LinearGroup qkv_;     // [hidden, hidden] x3
  Linear out_;          // [hidden, hidden]
  GluWeights mlp_;
};

/// Normed before the patches of a square become one row, or, in deepstack, as one row: the width of the norm tells.
class Merger final : public TowerPart {
 public:
  Merger(const Dims& dims, int64_t norm_width, WeightLoader& loader, WeightBinder w)
      : merged_(dims.merged()),
        norm_width_(norm_width),
        norm_(load_layer_norm(loader, w, "norm", norm_width, kEps)),
        mlp_(loader.load_mlp(projection(w, "linear_fc1", merged_, merged_, Bias::Present),
                             projection(w, "linear_fc2", dims.out_hidden, merged_, Bias::Present), Activation::Gelu)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor normed = norm_.forward(op, x.reshaped({x.elements() / norm_width_, norm_width_}));
    return op.glu_mlp(normed.reshaped({x.elements() / merged_, merged_}), mlp_);
  }

 private:
  int64_t merged_, norm_width_;
  Norm norm_;
  GluWeights mlp_;
};

class Qwen3VlTower final : public VisionTower {
 public:
  Qwen3VlTower(const Dims& dims, TowerSpec spec) : dims_(dims), rope_(rope_of(dims)) { spec_ = std::move(spec); }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Input>(dims_, loader, w);
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<TowerBlock>(dims_, rope_, loader, w.at("blocks." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Merger>(dims_, dims_.hidden, loader, w.at("merger."));
  }
  std::unique_ptr<TowerPart> load_deepstack(size_t stream, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Merger>(dims_, dims_.merged(), loader,
                                    w.at("deepstack_merger_list." + std::to_string(stream) + "."));
  }

 private:
  Dims dims_;
  RopeSpec rope_;
};

Dims read_dims(const Json& vision, const ModelSpec& model) {
  Dims d{};
  d.hidden = read_size(vision, "hidden_size", 1152);
  d.ffn = read_size(vision, "intermediate_size", 4304);
  d.n_heads = read_size(vision, "num_heads", 16);
  d.out_hidden = read_size(vision, "out_hidden_size", 3584);
  d.n_positions = read_size(vision, "num_position_embeddings", 2304);
  d.act = read_activation(vision, "hidden_act", Activation::GeluTanh);
  d.patches = {read_size(vision, "patch_size", 16), read_size(vision, "spatial_merge_size", 2),
               read_size(vision, "temporal_patch_size", 2)};
  const auto expect = [](const char* key, bool holds, int64_t value, const std::string& expected) {
    if (!holds) fail(std::string(key) + " is " + std::to_string(value) + ", expected " + expected);
  };
  const int64_t side = std::llround(std::sqrt(static_cast<double>(d.n_positions)));
  const int64_t channels = read_size(vision, "in_channels", 3), divisor = 4 * d.n_heads;
  expect("in_channels", channels == 3, channels, "3");
  expect("num_position_embeddings", side * side == d.n_positions, d.n_positions, "a square");
  expect("hidden_size", d.hidden % divisor == 0, d.hidden, "a multiple of " + std::to_string(divisor));
  expect("out_hidden_size", d.out_hidden == model.hidden, d.out_hidden, std::to_string(model.hidden));
  expect("patch_size", d.patches.size <= 256, d.patches.size, "at most 256");
  expect("spatial_merge_size", d.patches.merge <= 16, d.patches.merge, "at most 16");
  expect("temporal_patch_size", d.patches.frames <= 16, d.patches.frames, "at most 16");
  if (const Json* rope = find_member(vision, "rope_parameters"))
    if (const double theta = get_number_or(*rope, "rope_theta", kTheta); theta != kTheta)
      fail("rope_theta is " + std::to_string(theta) + ", expected 10000");
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
  const Json* vision = find_member(config, "vision_config");
  if (!vision) fail("is not there");
  const Dims dims = read_dims(*vision, model);
  TowerSpec spec;
  spec.token = static_cast<int32_t>(get_int(config, "image_token_id"));
  spec.patches = dims.patches;
  spec.hidden = dims.hidden;
  spec.activations = 12 * dims.hidden + 2 * dims.ffn + 2 * dims.patches.values();
  spec.n_blocks = static_cast<int>(read_size(*vision, "depth", 27));
  spec.deepstack_after = read_streams(*vision, model, spec.n_blocks);
  spec.prefixes = {"model.visual.", "visual."};
  spec.first = "patch_embed.proj.weight";
  return std::make_unique<Qwen3VlTower>(dims, std::move(spec));
}

}  // namespace kvcal
