#include "model/towers/clip_layer.h"

#include <utility>

#include "model/config_reading.h"
#include "model/towers/patch_rows.h"

namespace kvcal {
namespace {

constexpr float kQuickGelu = 1.702f;

}  // namespace

DecoderDims read_clip_layers(const Json& vision, const ClipDefaults& defaults) {
  DecoderDims d{};
  d.hidden = read_size(vision, "hidden_size", defaults.hidden);
  d.ffn = read_size(vision, "intermediate_size", 3072);
  d.n_layers = read_size(vision, "num_hidden_layers", 12);
  d.n_heads = d.n_kv_heads = read_size(vision, "num_attention_heads", defaults.n_heads);
  d.head_dim = d.hidden / d.n_heads;
  d.eps = static_cast<float>(get_number_or(vision, "layer_norm_eps", defaults.eps));
  const int64_t channels = read_size(vision, "num_channels", 3);
  expect_size("num_channels", channels == 3, channels, "3");
  expect_size("hidden_size", d.hidden % d.n_heads == 0, d.hidden, "a multiple of " + std::to_string(d.n_heads));
  return d;
}

int64_t read_n_seen(const Json& config, const char* key, int64_t n, int64_t fallback) {
  const int64_t layer = get_int_or(config, key, fallback);
  if (layer > -1 || layer < -1 - n)
    fail(std::string(key) + " is " + std::to_string(layer) + ", expected " + std::to_string(-1 - n) + " to -1");
  return n + 1 + layer;
}

void expect_clip_patches(int64_t image_size, int64_t patch_size) {
  expect_size("patch_size", patch_size <= 256, patch_size, "at most 256");
  expect_size("image_size", image_size % patch_size == 0 && image_size / patch_size <= 1024, image_size,
              "at most 1,024 whole patches of " + std::to_string(patch_size));
}

void expect_tile_patches(int64_t image_size, int64_t patch_size) {
  const int64_t side = image_size / patch_size;
  expect_size("patch_size", patch_size <= 256, patch_size, "at most 256");
  expect_size("image_size", side >= 1 && side <= 1024, image_size,
              "1 to 1,024 patches of " + std::to_string(patch_size));
}

WeightBinder clip_weights(const WeightBinder& w) {
  constexpr const char* kOlder = "vision_tower.vision_model.";
  return w.at(w.at(kOlder).has("post_layernorm.weight") ? kOlder : "vision_tower.");
}

Linear load_clip_patches(WeightLoader& loader, WeightBinder& w, const DecoderDims& dims, const PatchShape& patches,
                         Bias bias) {
  const Tensor kernel = w("patch_embedding.weight", {dims.hidden, 3, patches.size, patches.size});
  return loader.load_linear(kernel.reshaped({dims.hidden, patches.values()}),
                            bias == Bias::Present ? w("patch_embedding.bias", {dims.hidden}) : Tensor{});
}

QuickGeluMlp::QuickGeluMlp(WeightLoader& loader, WeightBinder w, int64_t hidden, int64_t ffn)
    : up_(load_projection(loader, w, "fc1", ffn, hidden, Bias::Present)),
      down_(load_projection(loader, w, "fc2", hidden, ffn, Bias::Present)) {}

Tensor QuickGeluMlp::forward(Ops& op, const Tensor& x) const {
  const Tensor up = op.linear(x, up_);
  return op.linear(op.sigmoid_mul(up, op.scale(up, kQuickGelu)), down_);
}

ClipLayer::ClipLayer(const ClipLayerDims& dims, FeedForward mlp, WeightLoader& loader, WeightBinder w)
    : d_(dims.sizes),
      tile_(dims.tile),
      norm1_(load_layer_norm(loader, w, "layer_norm1", d_.hidden, d_.eps)),
      norm2_(load_layer_norm(loader, w, "layer_norm2", d_.hidden, d_.eps)),
      qkv_(load_qkv(loader, w, d_, Bias::Present)),
      out_(load_projection(loader, w, "self_attn.out_proj", d_.hidden, d_.hidden, Bias::Present)),
      mlp_(std::move(mlp)) {}

Tensor ClipLayer::forward(Ops& op, const Tensor& x, const PatchGrid&) {
  const HeadsPart part = {d_.head_dim, {}, false}, parts[] = {part, part, part};
  const auto qkv = op.project_heads(norm1_.forward(op, x), qkv_, {parts, d_.eps, {}, RopeSpec{}});
  std::vector<Span> spans;
  for (int64_t row = 0; row < x.dim(0); row += tile_) spans.push_back({row, tile_, 0});
  const Tensor y = op.add(x, op.linear(attend_within(op, qkv, spans), out_));
  return op.add(y, mlp_(op, norm2_.forward(op, y)));
}

}  // namespace kvcal
