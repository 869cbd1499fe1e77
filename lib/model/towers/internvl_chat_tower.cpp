#include "model/towers/internvl_chat_tower.h"

#include <utility>

#include "model/config_reading.h"
#include "model/towers/clip_layer.h"
#include "model/towers/intern_vit.h"

namespace kvcal {
namespace {

constexpr float kProjectorEps = 1e-5f;  // not of the config

struct ChatDims {
  InternVitDims vit;
  int64_t out_hidden = 0;
  Bias qkv = Bias::None;
  bool heads_normed = false;  // q and k
};

class InternVlChatTower final : public VisionTower {
 public:
  InternVlChatTower(const ChatDims& dims, TowerSpec spec) : dims_(dims) { spec_ = std::move(spec); }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& weights) const override {
    const InternVitDims& d = dims_.vit;
    const WeightBinder w = weights.at("vision_model.embeddings.");
    const Tensor kernel = w("patch_embedding.weight", {d.hidden, 3, d.patches.size, d.patches.size});
    return std::make_unique<TileInput>(
        d, loader.load_linear(kernel.reshaped({d.hidden, d.patches.values()}), w("patch_embedding.bias", {d.hidden})),
        w("class_embedding", {1, 1, d.hidden}).reshaped({1, d.hidden}),
        w("position_embedding", {1, d.tile_rows(), d.hidden}).reshaped({d.tile_rows(), d.hidden}));
  }

  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& weights) const override {
    const InternVitDims& d = dims_.vit;
    const int64_t h = d.hidden;
    WeightBinder w = weights.at("vision_model.encoder.layers." + std::to_string(block) + ".");
    const auto norm = [&](const char* name) { return load_block_norm(loader, w, name, d); };
    const auto norm_of_heads = [&](const char* name) {
      return dims_.heads_normed ? load_rms_norm(loader, w, name, d, d.eps) : Norm{};
    };
    const auto scale = [&](const char* name) { return w(name, {h}).reshaped({1, h}); };
    const HostLinear all = projection(w, "attn.qkv", 3 * h, h, dims_.qkv);
    const HostLinear qkv[] = {all.rows(0, h), all.rows(h, h), all.rows(2 * h, h)};
    return std::make_unique<InternVitBlock>(
        d, InternVitLayer{norm("norm1"), norm("norm2"), loader.load_linears(qkv), norm_of_heads("attn.q_norm"),
                          norm_of_heads("attn.k_norm"), load_projection(loader, w, "attn.proj", h, h, Bias::Present),
                          loader.load_mlp(projection(w, "mlp.fc1", d.ffn, h, Bias::Present),
                                          projection(w, "mlp.fc2", h, d.ffn, Bias::Present), d.act),
                          scale("ls1"), scale("ls2")});
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& weights) const override {
    const int64_t merged = dims_.vit.merged(), out = dims_.out_hidden;
    WeightBinder w = weights.at("mlp1.");
    return std::make_unique<TileOutput>(dims_.vit, load_layer_norm(loader, w, "0", merged, kProjectorEps),
                                        loader.load_mlp(projection(w, "1", out, merged, Bias::Present),
                                                        projection(w, "3", out, out, Bias::Present), Activation::Gelu));
  }

 private:
  ChatDims dims_;
};

/// Tiles of a picture: one where dynamic_image_size is not set.
TileLimits read_limits(const Json& config) {
  if (!get_bool_or(config, "dynamic_image_size", false)) return {};
  return {get_int_or(config, "min_dynamic_patch", 1), get_int_or(config, "max_dynamic_patch", 6),
          get_bool_or(config, "use_thumbnail", false)};
}

InternVitDims read_vit(const Json& config) {
  constexpr int64_t kMerge = 2;
  const Json& vision = vision_config(config);
  InternVitDims d;
  d.hidden = read_size(vision, "hidden_size", 3200);
  d.ffn = read_size(vision, "intermediate_size", 12800);
  d.n_heads = read_size(vision, "num_attention_heads", 25);
  d.n_layers = read_n_seen(config, "select_layer", read_size(vision, "num_hidden_layers", 48), -1);
  d.eps = static_cast<float>(get_number_or(vision, "layer_norm_eps", 1e-6));
  d.norm = read_intern_norm(vision, "rms_norm");
  d.act = read_activation(vision, "hidden_act", d.act);
  const int64_t image = read_size(vision, "image_size", 224), size = read_size(vision, "patch_size", 14);
  expect_size("image_size", image % size == 0, image, "whole patches of " + std::to_string(size));
  const int64_t forced = read_size(config, "force_image_size", image);
  expect_size("force_image_size", forced == image, forced, "the vision_config's " + std::to_string(image));
  d.patches = {size, kMerge, 1, kInternVlChatProcessor, image / size, {}, read_limits(config)};
  const int64_t channels = read_size(vision, "num_channels", 3);
  expect_size("num_channels", channels == 3, channels, "3");
  check_intern_vit(d);
  return d;
}

/// Of what stands beside vision_config.
void check_projector(const Json& config) {
  check_downsampling(config);
  if (const std::string version = get_string_or(config, "ps_version", "v1"); version != "v2")
    fail("ps_version is " + quoted(version) + ", expected v2");
}

}  // namespace

std::unique_ptr<VisionTower> read_internvl_chat_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  check_projector(config);
  ChatDims dims;
  dims.vit = read_vit(config);
  dims.out_hidden = model.hidden;
  dims.qkv = read_bias(vision, "qkv_bias");
  dims.heads_normed = get_bool_or(vision, "qk_normalization", true);
  TowerSpec spec = intern_vit_spec(dims.vit, model);
  spec.text = {"<image>", "<img><IMG_CONTEXT></img>"};
  spec.text.in_front = true;
  spec.prefixes = {""};
  spec.modules = {"mlp1.", "vision_model."};
  spec.first = "mlp1.1.weight";
  return std::make_unique<InternVlChatTower>(dims, std::move(spec));
}

}  // namespace kvcal
