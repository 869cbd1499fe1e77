#include "model/towers/clip_tower.h"

#include "model/config_reading.h"

namespace kvcal {
namespace {

class ClipInput final : public TowerPart {
 public:
  ClipInput(const ClipDims& dims, WeightLoader& loader, WeightBinder w) {
    const int64_t hidden = dims.layers.hidden, n = dims.tile_rows();
    norm_ = load_layer_norm(loader, w, "pre_layrnorm", hidden, dims.layers.eps);  // the name is misspelt in all files
    WeightBinder embeddings = w.at("embeddings.");
    projection_ = load_clip_patches(loader, embeddings, dims.layers, dims.patches, Bias::None);
    class_ = embeddings("class_embedding", {hidden}).reshaped({1, hidden});
    table_ = embeddings("position_embedding.weight", {n, hidden});
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const int64_t hidden = table_.dim(1), n = table_.dim(0), n_tiles = x.dim(0) / (n - 1);
    std::vector<int32_t> positions(static_cast<size_t>(n_tiles * n));
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int32_t>(i % static_cast<size_t>(n));
    const Tensor classes = op.embed(class_, std::vector<int32_t>(static_cast<size_t>(n_tiles), 0));
    const Tensor patches = op.linear(x, projection_).reshaped({n_tiles, (n - 1) * hidden});
    const Tensor rows = op.join(classes, patches).reshaped({n_tiles * n, hidden});
    return norm_.forward(op, op.add(rows, op.embed(table_, positions)));
  }

 private:
  Linear projection_;  // [hidden, patch]
  Tensor class_;       // [1, hidden]
  Tensor table_;       // [1 + patches, hidden]
  Norm norm_;          // [hidden]
};

}  // namespace

ClipDims read_clip(const Json& config, int64_t feature_layer) {
  const Json& vision = vision_config(config);
  ClipDims dims;
  DecoderDims& d = dims.layers;
  d = read_clip_layers(vision, {1e-5});
  d.n_layers = read_n_seen(config, "vision_feature_layer", d.n_layers, feature_layer);
  const int64_t image = read_size(vision, "image_size", 224), size = read_size(vision, "patch_size", 32);
  expect_clip_patches(image, size);
  dims.patches = {size, 1, 1, kClipProcessor, image / size};
  expect_word(vision, "hidden_act", "quick_gelu");
  return dims;
}

ClipTower::ClipTower(const ClipDims& dims, const ModelSpec& model) : dims_(dims) {
  const DecoderDims& d = dims.layers;
  spec_.token = model.placeholders.front();
  spec_.patches = dims.patches;
  spec_.hidden = d.hidden + (d.hidden - 1) / (dims.tile_rows() - 1) + 1;  // with the share of the rows in front
  spec_.activations = 12 * d.hidden + 3 * d.ffn + 2 * dims.patches.values();
  spec_.n_blocks = static_cast<int>(d.n_layers);
  spec_.prefixes = {"", "model."};
}

std::unique_ptr<TowerPart> ClipTower::load_input(WeightLoader& loader, WeightBinder& w) const {
  return std::make_unique<ClipInput>(dims_, loader, clip_weights(w));
}

std::unique_ptr<TowerPart> ClipTower::load_block(int block, WeightLoader& loader, WeightBinder& w) const {
  const WeightBinder layer = clip_weights(w).at("encoder.layers." + std::to_string(block) + ".");
  QuickGeluMlp mlp(loader, layer.at("mlp."), dims_.layers.hidden, dims_.layers.ffn);
  return std::make_unique<ClipLayer>(
      ClipLayerDims{dims_.layers, dims_.tile_rows()}, [mlp](Ops& op, const Tensor& x) { return mlp.forward(op, x); },
      loader, layer);
}

}  // namespace kvcal
