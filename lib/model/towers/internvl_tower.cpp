#include "model/towers/internvl_tower.h"

#include <utility>

#include "model/config_reading.h"
#include "model/towers/intern_vit.h"
#include "model/towers/llava_projector.h"

namespace kvcal {
namespace {

constexpr float kProjectorEps = 1e-5f, kHeadsEps = 1e-6f;  // not of the config

/// What this class names beside the sizes.
struct InternVlDims {
  InternVitDims vit;
  int64_t out_hidden = 0;
  Bias qkv = Bias::None;
  bool heads_normed = false;          // q and k
  Activation act = Activation::Gelu;  // of the projector
};

class InternVlTower final : public VisionTower {
 public:
  InternVlTower(const InternVlDims& dims, TowerSpec spec) : dims_(dims) { spec_ = std::move(spec); }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& weights) const override {
    const InternVitDims& d = dims_.vit;
    const WeightBinder w = weights.at("vision_tower.embeddings.");
    const Tensor kernel = w("patch_embeddings.projection.weight", {d.hidden, 3, d.patches.size, d.patches.size});
    return std::make_unique<TileInput>(
        d,
        loader.load_linear(kernel.reshaped({d.hidden, d.patches.values()}),
                           w("patch_embeddings.projection.bias", {d.hidden})),
        w("cls_token", {1, 1, d.hidden}).reshaped({1, d.hidden}),
        w("position_embeddings", {1, d.tile_rows(), d.hidden}).reshaped({d.tile_rows(), d.hidden}));
  }

  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& weights) const override {
    const InternVitDims& d = dims_.vit;
    WeightBinder w = weights.at("vision_tower.encoder.layer." + std::to_string(block) + ".");
    const auto norm = [&](const char* name) { return load_block_norm(loader, w, name, d); };
    const auto norm_of_heads = [&](const char* name) {
      return dims_.heads_normed ? load_rms_norm(loader, w, name, d, kHeadsEps) : Norm{};
    };
    const auto project = [&](const char* name) { return projection(w, name, d.hidden, d.hidden, dims_.qkv); };
    const auto scale = [&](const char* name) { return w(name, {d.hidden}).reshaped({1, d.hidden}); };
    const HostLinear qkv[] = {project("attention.q_proj"), project("attention.k_proj"), project("attention.v_proj")};
    return std::make_unique<InternVitBlock>(
        d, InternVitLayer{norm("layernorm_before"), norm("layernorm_after"), loader.load_linears(qkv),
                          norm_of_heads("attention.q_norm"), norm_of_heads("attention.k_norm"),
                          load_projection(loader, w, "attention.projection_layer", d.hidden, d.hidden, Bias::Present),
                          loader.load_mlp(projection(w, "mlp.fc1", d.ffn, d.hidden, Bias::Present),
                                          projection(w, "mlp.fc2", d.hidden, d.ffn, Bias::Present), d.act),
                          scale("lambda_1"), scale("lambda_2")});
  }

  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& weights) const override {
    const int64_t merged = dims_.vit.merged(), out = dims_.out_hidden;
    WeightBinder w = weights.at("multi_modal_projector.");
    return std::make_unique<TileOutput>(dims_.vit, load_layer_norm(loader, w, "layer_norm", merged, kProjectorEps),
                                        load_llava_projector({merged, out, dims_.act, Bias::Present}, loader, w));
  }

 private:
  InternVlDims dims_;
};

/// A number, or height and width, which have to be equal.
int64_t read_edge(const Json& vision, const char* key, int64_t fallback) {
  const Json* given = find_member(vision, key);
  if (!given || !given->is_array()) return read_size(vision, key, fallback);
  if (given->size() != 2 || (*given)[0] != (*given)[1])
    fail(std::string(key) + " is " + given->dump() + ", expected a square");
  return read_size({{key, (*given)[0]}}, key);
}

void expect_true(const Json& vision, const char* key) {
  if (!get_bool_or(vision, key, true)) fail(std::string(key) + " is false, expected true");
}

InternVitDims read_vit(const Json& vision) {
  constexpr int64_t kMerge = 2;
  InternVitDims d;
  d.hidden = read_size(vision, "hidden_size", 1024);
  d.ffn = read_size(vision, "intermediate_size", 4096);
  d.n_heads = read_size(vision, "num_attention_heads", 16);
  d.n_layers = read_size(vision, "num_hidden_layers", 24);
  d.eps = static_cast<float>(get_number_or(vision, "layer_norm_eps", 1e-6));
  d.norm = read_intern_norm(vision, "layer_norm");
  d.act = read_activation(vision, "hidden_act", d.act);
  const int64_t image = read_edge(vision, "image_size", 448), size = read_edge(vision, "patch_size", 14);
  expect_size("image_size", image % size == 0, image, "whole patches of " + std::to_string(size));
  d.patches = {size, kMerge, 1, kGotOcr2Processor, image / size};
  const int64_t channels = read_size(vision, "num_channels", 3);
  expect_size("num_channels", channels == 3, channels, "3");
  check_intern_vit(d);
  return d;
}

/// Of what stands beside vision_config.
void check_projector(const Json& config) {
  check_downsampling(config);
  if (const Json* layer = find_member(config, "vision_feature_layer"); layer && *layer != -1)
    fail("vision_feature_layer is " + layer->dump() + ", expected -1");
  expect_word(config, "vision_feature_select_strategy", "default");
}

}  // namespace

std::unique_ptr<VisionTower> read_internvl_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  expect_word(vision, "model_type", "internvl_vision");
  expect_true(vision, "use_absolute_position_embeddings");
  expect_true(vision, "use_mean_pooling");
  check_projector(config);
  InternVlDims dims;
  dims.vit = read_vit(vision);
  dims.out_hidden = model.hidden;
  dims.qkv = read_bias(vision, "attention_bias");
  dims.heads_normed = get_bool_or(vision, "use_qk_norm", false);
  dims.act = read_activation(config, "projector_hidden_act", dims.act);
  TowerSpec spec = intern_vit_spec(dims.vit, model);
  spec.text = {"<IMG_CONTEXT>", "<img><IMG_CONTEXT></img>"};
  spec.prefixes = {"model.", ""};
  spec.modules = {"multi_modal_projector.", "vision_tower."};
  spec.first = "multi_modal_projector.layer_norm.weight";
  return std::make_unique<InternVlTower>(dims, std::move(spec));
}

}  // namespace kvcal
