#include "model/towers/qwen_tower_parts.h"

#include <utility>

#include "model/config_reading.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr double kTowerTheta = 10000;

}  // namespace

void read_heads_and_patches(const Json& vision, int64_t default_patch_size, QwenTowerDims& dims) {
  dims.n_heads = read_size(vision, "num_heads", 16);
  dims.patches = {read_size(vision, "patch_size", default_patch_size), read_size(vision, "spatial_merge_size", 2),
                  read_size(vision, "temporal_patch_size", 2), kQwen2VlProcessor};
}

void check_tower(const Json& vision, const QwenTowerDims& d, const QwenTowerKeys& keys, const ModelSpec& model) {
  const int64_t channels = read_size(vision, "in_channels", 3), divisor = 4 * d.n_heads;
  expect_size("in_channels", channels == 3, channels, "3");
  expect_size(keys.hidden, d.hidden % divisor == 0, d.hidden, "a multiple of " + std::to_string(divisor));
  expect_size(keys.out_hidden, d.out_hidden == model.hidden, d.out_hidden, std::to_string(model.hidden));
  expect_size("patch_size", d.patches.size <= 256, d.patches.size, "at most 256");
  expect_size("spatial_merge_size", d.patches.merge <= 16, d.patches.merge, "at most 16");
  expect_size("temporal_patch_size", d.patches.frames <= 16, d.patches.frames, "at most 16");
  if (const Json* rope = find_member(vision, "rope_parameters"))
    if (const double theta = get_number_or(*rope, "rope_theta", kTowerTheta); theta != kTowerTheta)
      fail("rope_theta is " + std::to_string(theta) + ", expected 10000");
}

TowerSpec qwen_tower_spec(const Json& config, const QwenTowerDims& dims, int64_t n_blocks) {
  TowerSpec spec;
  spec.token = static_cast<int32_t>(get_int(config, "image_token_id"));
  spec.patches = dims.patches;
  spec.hidden = dims.hidden;
  spec.activations = 12 * dims.hidden + 3 * dims.ffn + 2 * dims.patches.values();
  spec.n_blocks = static_cast<int>(n_blocks);
  spec.prefixes = {"model.visual.", "visual."};
  spec.first = "patch_embed.proj.weight";
  return spec;
}

RopeSpec qwen_tower_rope(const QwenTowerDims& dims) {
  RopeSpec rope;
  rope.rotary_dim = dims.head_dim();
  const std::vector<float> frequencies =
      read_rope(Json::object(), dims.head_dim() / 2, {kTowerTheta}).inverse_frequency;
  for (int axis = 0; axis < 2; ++axis) {
    rope.inverse_frequency.insert(rope.inverse_frequency.end(), frequencies.begin(), frequencies.end());
    rope.axis.insert(rope.axis.end(), frequencies.size(), axis);
  }
  return rope;
}

Linear load_patch_projection(const QwenTowerDims& dims, WeightLoader& loader, WeightBinder& w, Bias bias) {
  const PatchShape& p = dims.patches;
  const Tensor kernel = w("patch_embed.proj.weight", {dims.hidden, 3, p.frames, p.size, p.size});
  return loader.load_linear(kernel.reshaped({dims.hidden, dims.patches.values()}),
                            bias == Bias::Present ? w("patch_embed.proj.bias", {dims.hidden}) : Tensor{});
}

PatchAttention::PatchAttention(const QwenTowerDims& dims, const RopeSpec& rope, WeightLoader& loader, WeightBinder& w)
    : dims_(dims), rope_(rope) {
  const int64_t h = dims.hidden;
  const HostLinear all = projection(w, "attn.qkv", 3 * h, h, dims.qkv);
  const HostLinear parts[] = {all.rows(0, h), all.rows(h, h), all.rows(2 * h, h)};
  qkv_ = loader.load_linears(parts);
  out_ = load_projection(loader, w, "attn.proj", h, h, dims.out);
}

Tensor PatchAttention::forward(Ops& op, const Tensor& x, const PatchRows& rows) const {
  const int64_t n = x.dim(0), d = dims_.head_dim();
  const Tensor turns = op.rope_table(rows.positions(), n, rope_);
  const HeadsPart parts[] = {{d, {}, true}, {d, {}, true}, {d, {}, false}};
  const auto qkv = op.project_heads(x, qkv_, {parts, kQwenTowerEps, turns, rope_});
  return op.linear(attend_within(op, qkv, rows.spans), out_);
}

PatchMerger::PatchMerger(Norm norm, int64_t norm_width, int64_t merged, GluWeights mlp)
    : norm_(std::move(norm)), norm_width_(norm_width), merged_(merged), mlp_(std::move(mlp)) {}

Tensor PatchMerger::forward(Ops& op, const Tensor& x, const PatchGrid&) {
  const Tensor normed = norm_.forward(op, x.reshaped({x.elements() / norm_width_, norm_width_}));
  return op.glu_mlp(normed.reshaped({x.elements() / merged_, merged_}), mlp_);
}

GluWeights load_merger_mlp(const QwenTowerDims& dims, WeightLoader& loader, WeightBinder& w, const std::string& first,
                           const std::string& second) {
  const int64_t merged = dims.merged();
  return loader.load_mlp(projection(w, first, merged, merged, Bias::Present),
                         projection(w, second, dims.out_hidden, merged, Bias::Present), Activation::Gelu);
}

}  // namespace kvcal
