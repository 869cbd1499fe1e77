// Each tile of a picture is a square of patches with a learned position each, and behind them a token of its class;
// blocks have layer norm, turn by column and row, and see the whole tile; a square of patches, side by side, becomes
// one row (docs/model-notes.md, "Images").
#include "model/towers/llama4_tower.h"

#include <string>
#include <utility>

#include "model/config_reading.h"
#include "model/layers/decoder_parts.h"
#include "model/rope.h"
#include "model/towers/clip_layer.h"
#include "model/towers/patch_rows.h"

namespace kvcal {
namespace {

constexpr float kEps = 1e-5f;  // of all norms, whatever norm_eps of the config says
constexpr int64_t kMerge = 2;
constexpr std::string_view kWritten = "<|image|>", kPatch = "<|patch|>", kStart = "<|image_start|>",
                           kEnd = "<|image_end|>", kTileEnd = "<|tile_x_separator|>", kLineEnd = "<|tile_y_separator|>";

struct Dims {
  DecoderDims layers{};  // sizes of its layers
  PatchShape patches;
  RopeSpec rope;
  int64_t adapted = 0;  // columns of a square behind the adapter

  int64_t tile() const { return patches.side * patches.side; }  // patches of a tile
  int64_t tile_rows() const { return tile() + 1; }              // with the class
  int64_t merged() const { return layers.hidden * kMerge * kMerge; }
};

/// Tiles by lines, then the whole picture.
std::vector<PicturePart> parts_by_tile(const PatchGrid& squares) {
  const int64_t n = squares.width * squares.width, n_tiles = squares.height / squares.width - 1;
  std::vector<PicturePart> parts;
  std::string before(kStart);
  for (int64_t i = 0; i < n_tiles; ++i) {
    parts.push_back({before, n});
    before = (i + 1) % squares.tile_columns == 0 ? kLineEnd : kTileEnd;
  }
  parts.push_back({before + std::string(kWritten), n});
  parts.push_back({std::string(kEnd), 0});
  return parts;
}

class Llama4Input final : public TowerPart {
 public:
  Llama4Input(const Dims& dims, WeightLoader& loader, WeightBinder w)
      : dims_(dims),
        projection_(load_projection(loader, w, "patch_embedding.linear", dims.layers.hidden, dims.patches.values())),
        class_(w("class_embedding", {dims.layers.hidden}).reshaped({1, dims.layers.hidden})),
        table_(w("positional_embedding_vlm", {dims.tile_rows(), dims.layers.hidden})),
        norm_(load_layer_norm(loader, w, "layernorm_pre", dims.layers.hidden, kEps)) {
    const int64_t side = dims.patches.side;
    for (int64_t i = 0; i < dims.tile(); ++i) {
      const PatchPlace place = place_of(i, {side, side}, kMerge);
      order_.push_back(static_cast<int32_t>(place.row * side + place.column));
    }
    order_.push_back(static_cast<int32_t>(dims.tile()));
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const int64_t n_tiles = x.dim(0) / dims_.tile(), hidden = dims_.layers.hidden;
    const Tensor patches = op.linear(x, projection_).reshaped({n_tiles, dims_.tile() * hidden});
    const Tensor classes = op.embed(class_, std::vector<int32_t>(static_cast<size_t>(n_tiles), 0));
    std::vector<int32_t> positions;
    for (int64_t i = 0; i < n_tiles; ++i) positions.insert(positions.end(), order_.begin(), order_.end());
    const Tensor rows = op.join(patches, classes).reshaped({n_tiles * dims_.tile_rows(), hidden});
    return norm_.forward(op, op.add(rows, op.embed(table_, positions)));
  }

 private:
  const Dims& dims_;
  Linear projection_;           // [hidden, patch]
  Tensor class_;                // [1, hidden], host
  Tensor table_;                // [tile_rows, hidden], host: by rows of a tile, then of the class
  Norm norm_;                   // [hidden]
  std::vector<int32_t> order_;  // [tile_rows]: the position of each row
};

/// Row and column of each patch of a tile from 1 on; 0 of the class, which is not turned: [2][rows].
std::vector<int32_t> turning_positions(const PatchShape& patches, int64_t n_tiles) {
  const PatchRows tile = whole_picture({patches.side, patches.side}, kMerge);
  std::vector<int32_t> rows, columns;
  for (int64_t i = 0; i < n_tiles; ++i) {
    for (const PatchPlace& place : tile.places) {
      rows.push_back(static_cast<int32_t>(place.row + 1));
      columns.push_back(static_cast<int32_t>(place.column + 1));
    }
    rows.push_back(0);
    columns.push_back(0);
  }
  rows.insert(rows.end(), columns.begin(), columns.end());
  return rows;
}

class Llama4Layer final : public TowerPart {
 public:
  Llama4Layer(const Dims& dims, WeightLoader& loader, WeightBinder w)
      : dims_(dims),
        norm1_(load_layer_norm(loader, w, "input_layernorm", d().hidden, kEps)),
        norm2_(load_layer_norm(loader, w, "post_attention_layernorm", d().hidden, kEps)),
        qkv_(load_qkv(loader, w, d(), Bias::Present)),
        out_(load_projection(loader, w, "self_attn.o_proj", d().hidden, d().hidden, Bias::Present)),
        mlp_(loader.load_mlp(projection(w, "mlp.fc1", d().ffn, d().hidden, Bias::Present),
                             projection(w, "mlp.fc2", d().hidden, d().ffn, Bias::Present), Activation::Gelu)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor y = op.add(x, op.linear(attend_in_tiles(op, norm1_.forward(op, x)), out_));
    return op.add(y, op.glu_mlp(norm2_.forward(op, y), mlp_));
  }

 private:
  const DecoderDims& d() const { return dims_.layers; }

  Tensor attend_in_tiles(Ops& op, const Tensor& x) const {
    const int64_t n = x.dim(0), rows = dims_.tile_rows();
    const Tensor turns = op.rope_table(turning_positions(dims_.patches, n / rows), n, dims_.rope);
    const HeadsPart turned = {d().head_dim, {}, true}, parts[] = {turned, turned, {d().head_dim, {}, false}};
    const auto qkv = op.project_heads(x, qkv_, {parts, kEps, turns, dims_.rope});
    std::vector<Span> spans;
    for (int64_t row = 0; row < n; row += rows) spans.push_back({row, rows, 0});
    return attend_within(op, qkv, spans);
  }

  const Dims& dims_;
  Norm norm1_, norm2_;  // [hidden]
  LinearGroup qkv_;     // [hidden, hidden] x3
  Linear out_;          // [hidden, hidden]
  GluWeights mlp_;
};

/// Without the rows of classes.
class Llama4Output final : public TowerPart {
 public:
  Llama4Output(const Dims& dims, int64_t out_hidden, WeightLoader& loader, const WeightBinder& w) : dims_(dims) {
    WeightBinder tower = w.at("vision_model."), projector = w.at("multi_modal_projector.");
    const int64_t adapted = dims.adapted;
    norm_ = load_layer_norm(loader, tower, "layernorm_post", dims.layers.hidden, kEps);
    adapter_ = loader.load_mlp(projection(tower, "vision_adapter.mlp.fc1", adapted, dims.merged()),
                               projection(tower, "vision_adapter.mlp.fc2", adapted, adapted), Activation::Gelu);
    projection_ = load_projection(loader, projector, "linear_1", out_hidden, adapted);
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const int64_t hidden = dims_.layers.hidden, n_tiles = x.dim(0) / dims_.tile_rows(), n = n_tiles * dims_.tile();
    const Tensor patches = op.columns(x.reshaped({n_tiles, dims_.tile_rows() * hidden}), 0, dims_.tile() * hidden);
    const Tensor normed = norm_.forward(op, patches.reshaped({n, hidden}));
    const Tensor adapted = op.glu_mlp(normed.reshaped({n * hidden / dims_.merged(), dims_.merged()}), adapter_);
    return op.linear(op.activate(adapted, Activation::Gelu), projection_);
  }

 private:
  const Dims& dims_;
  Norm norm_;  // [hidden]
  GluWeights adapter_;
  Linear projection_;  // [the model's hidden size, adapted]
};

class Llama4Tower final : public VisionTower {
 public:
  Llama4Tower(Dims dims, const ModelSpec& model) : dims_(std::move(dims)), out_hidden_(model.hidden) {
    const DecoderDims& d = dims_.layers;
    spec_.token = model.placeholders.front();
    spec_.text = {kWritten, kPatch, {kStart, kWritten, kTileEnd, kLineEnd, kEnd}, parts_by_tile};
    spec_.patches = dims_.patches;
    spec_.hidden = d.hidden + (d.hidden - 1) / dims_.tile() + 1;  // with the classes' share
    spec_.activations = 18 * spec_.hidden + 3 * d.ffn + 2 * dims_.patches.values();
    spec_.n_blocks = static_cast<int>(d.n_layers);
    spec_.prefixes = {""};
    spec_.modules = {"multi_modal_projector.", "vision_model."};
    spec_.first = "vision_model.class_embedding";
  }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Llama4Input>(dims_, loader, w.at("vision_model."));
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Llama4Layer>(dims_, loader,
                                         w.at("vision_model.model.layers." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Llama4Output>(dims_, out_hidden_, loader, w);
  }

 private:
  Dims dims_;
  int64_t out_hidden_;
};

DecoderDims read_layers(const Json& vision) {
  DecoderDims d{};
  d.hidden = read_size(vision, "hidden_size", 768);
  d.ffn = read_size(vision, "intermediate_size", 5632);
  d.n_layers = read_size(vision, "num_hidden_layers", 34);
  d.n_heads = d.n_kv_heads = read_size(vision, "num_attention_heads", 16);
  d.head_dim = d.hidden / d.n_heads;
  const int64_t divisor = 4 * d.n_heads;
  expect_size("hidden_size", d.hidden % divisor == 0, d.hidden, "a multiple of " + std::to_string(divisor));
  return d;
}

PatchShape read_patches(const Json& vision) {
  const int64_t image = read_size(vision, "image_size", 448), size = read_size(vision, "patch_size", 14);
  expect_clip_patches(image, size);
  expect_size("image_size", image / size % kMerge == 0, image, "whole squares of " + std::to_string(kMerge * size));
  const int64_t channels = read_size(vision, "num_channels", 3);
  expect_size("num_channels", channels == 3, channels, "3");
  return {size, kMerge, 1, kLlama4Processor, image / size};
}

/// Columns behind the adapter, whose first layer is as wide as a square, and as the layers' feed-forward is said to be.
int64_t read_adapter(const Json& vision, const Dims& dims) {
  if (const double ratio = get_number_or(vision, "pixel_shuffle_ratio", 0.5); ratio != 1.0 / kMerge)
    fail("pixel_shuffle_ratio is " + std::to_string(ratio) + ", expected 0.5");
  if (get_bool_or(vision, "multi_modal_projector_bias", false))
    fail("multi_modal_projector_bias is true, expected false");
  const int64_t ffn = dims.layers.ffn, out = read_size(vision, "projector_output_dim", 4096);
  expect_size("intermediate_size", ffn == dims.merged(), ffn, std::to_string(dims.merged()));
  const int64_t in = read_size(vision, "projector_input_dim", 4096),
                seen = read_size(vision, "vision_output_dim", 7680);
  expect_size("projector_input_dim", in == out, in, "the projector_output_dim " + std::to_string(out));
  expect_size("vision_output_dim", seen == out, seen, "the projector_output_dim " + std::to_string(out));
  return out;
}

}  // namespace

std::unique_ptr<VisionTower> read_llama4_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  expect_word(vision, "model_type", "llama4_vision_model");
  expect_word(vision, "hidden_act", "gelu");
  Dims dims;
  dims.layers = read_layers(vision);
  dims.patches = read_patches(vision);
  dims.adapted = read_adapter(vision, dims);
  dims.rope = columns_then_rows(dims.layers.head_dim, read_axial_theta(vision, 10000));
  dims.rope.interleaved = true;
  return std::make_unique<Llama4Tower>(std::move(dims), model);
}

}  // namespace kvcal
