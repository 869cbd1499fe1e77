// Patches with a learned position for their column and one for their row, then layers like the language model's, in
// which all patches of a picture see each other; behind them the patches of a small square become one row, their mean
// (docs/model-notes.md, "Images").
#include "model/towers/gemma4_tower.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "model/config_reading.h"
#include "model/layers/decoder_parts.h"
#include "model/layers/gemma_parts.h"
#include "model/layers/weight_rows.h"
#include "model/rope.h"
#include "model/towers/patch_rows.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

struct Dims {
  DecoderDims layers{};  // sizes of its layers
  PatchShape patches;
  Activation act = Activation::GeluTanh;
  RopeSpec rope;
  int64_t n_positions = 0;    // of columns, and of rows
  bool clipped = false;       // projections have bounds
  bool standardized = false;  // rows do
};

/// What a projection's inputs or outputs are kept within.
struct Bounds {
  float least, most;
};

Tensor within(Ops& op, const Tensor& x, const std::optional<Bounds>& bounds) {
  return bounds ? op.clamp(x, bounds->least, bounds->most) : x;
}

/// The framework turns each half of a head alone, its first quarter with its second one; ops turn halves of a head:
/// so the two quarters in the middle change places.
std::vector<int64_t> turned_channels(int64_t n_heads, int64_t head_dim) {
  std::vector<int64_t> order;
  for (int64_t head = 0; head < n_heads; ++head)
    for (const int64_t quarter : {0, 2, 1, 3})
      for (int64_t i = 0; i < head_dim / 4; ++i) order.push_back(head * head_dim + quarter * (head_dim / 4) + i);
  return order;
}

/// A projection without a bias.
class BoundedLinear {
 public:
  struct Shape {
    int64_t out, in;
    int64_t n_turned = 0;  // heads that RoPE rotates
  };
  BoundedLinear(const Dims& dims, const Shape& shape, WeightLoader& loader, WeightBinder w) {
    const HostLinear stored = projection(w, "linear", shape.out, shape.in);
    if (shape.n_turned == 0) {
      linear_ = loader.load_linear(stored.weight, {}, stored.input);
    } else {
      const std::vector<int64_t> order = turned_channels(shape.n_turned, dims.layers.head_dim);
      linear_ = loader.load_linear(select_rows(stored.weight, order).tensor(), {}, stored.input);
    }
    if (!dims.clipped) return;
    inputs_ = Bounds{first_value(w("input_min", {})), first_value(w("input_max", {}))};
    outputs_ = Bounds{first_value(w("output_min", {})), first_value(w("output_max", {}))};
  }

  Tensor forward(Ops& op, const Tensor& x) const {
    return within(op, op.linear(within(op, x, inputs_), linear_), outputs_);
  }

 private:
  Linear linear_;  // [out, in]
  std::optional<Bounds> inputs_, outputs_;
};

class Gemma4Input final : public TowerPart {
 public:
  Gemma4Input(const Dims& dims, WeightLoader& loader, WeightBinder w) : dims_(dims) {
    const int64_t hidden = dims.layers.hidden, n = dims.n_positions, pixels = dims.patches.size * dims.patches.size;
    const Tensor weight = w("input_proj.weight", {hidden, dims.patches.values()});  // columns are [pixels][colors]
    projection_ = loader.load_linear(swapped_columns(weight, pixels, 3).tensor());
    const Tensor table = w("position_embedding_table", {2, n, hidden});
    of_columns_ = table.rows(0, 1).reshaped({n, hidden});
    of_rows_ = table.rows(1, 1).reshaped({n, hidden});
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const int64_t longest = std::max(grid.height, grid.width);
    expect_size("position_embedding_size", longest <= dims_.n_positions, dims_.n_positions,
                "at least the " + std::to_string(longest) + " patches on a side of a picture");
    const std::vector<int32_t> at = whole_picture(grid, dims_.patches.merge).positions();  // [2][patches]
    const auto rows = std::span(at).first(at.size() / 2), columns = std::span(at).last(at.size() / 2);
    return op.add(op.linear(x, projection_), op.add(op.embed(of_columns_, columns), op.embed(of_rows_, rows)));
  }

 private:
  const Dims& dims_;
  Linear projection_;            // [hidden, patch]
  Tensor of_columns_, of_rows_;  // [positions, hidden], host
};

class Gemma4Attention {
 public:
  Gemma4Attention(const Dims& dims, WeightLoader& loader, const WeightBinder& w)
      : dims_(dims),
        q_(dims, {heads(), d().hidden, d().n_heads}, loader, w.at("q_proj.")),
        k_(dims, {kv_heads(), d().hidden, d().n_kv_heads}, loader, w.at("k_proj.")),
        v_(dims, {kv_heads(), d().hidden}, loader, w.at("v_proj.")),
        out_(dims, {d().hidden, heads()}, loader, w.at("o_proj.")),
        q_norm_(turned_gain(loader, w, "q_norm.weight")),
        k_norm_(turned_gain(loader, w, "k_norm.weight")) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) const {
    const PatchRows rows = whole_picture(grid, dims_.patches.merge);
    const Tensor turns = op.rope_table(rows.positions(), x.dim(0), dims_.rope);
    const auto normed = [&](const BoundedLinear& part, int64_t n_heads, const Tensor& gain) {
      return op.rms_norm(part.forward(op, x).reshaped({x.dim(0), n_heads, d().head_dim}), gain, d().eps);
    };
    const Tensor qkv[] = {op.rope(normed(q_, d().n_heads, q_norm_), turns, dims_.rope),
                          op.rope(normed(k_, d().n_kv_heads, k_norm_), turns, dims_.rope),
                          normed(v_, d().n_kv_heads, {})};
    return out_.forward(op, attend_within(op, qkv, rows.spans, 1.0f));
  }

 private:
  const DecoderDims& d() const { return dims_.layers; }
  int64_t heads() const { return d().n_heads * d().head_dim; }
  int64_t kv_heads() const { return d().n_kv_heads * d().head_dim; }
  Owned turned_gain(WeightLoader& loader, const WeightBinder& w, const char* name) const {
    const Tensor stored = w(name, {d().head_dim});
    return loader.load_f32(select_rows(stored, turned_channels(1, d().head_dim)).tensor());
  }

  const Dims& dims_;
  BoundedLinear q_, k_, v_, out_;  // [heads·D, hidden], [KV heads·D, hidden] x2, [hidden, heads·D]
  Owned q_norm_, k_norm_;          // [D]
};

class Gemma4Layer final : public TowerPart {
 public:
  Gemma4Layer(const Dims& dims, WeightLoader& loader, const WeightBinder& w)
      : dims_(dims),
        attention_(dims, loader, w.at("self_attn.")),
        gate_(dims, {dims.layers.ffn, dims.layers.hidden}, loader, w.at("mlp.gate_proj.")),
        up_(dims, {dims.layers.ffn, dims.layers.hidden}, loader, w.at("mlp.up_proj.")),
        down_(dims, {dims.layers.hidden, dims.layers.ffn}, loader, w.at("mlp.down_proj.")),
        attn_norm_(load_f32_gain(loader, w, "input_layernorm", dims.layers.hidden)),
        attn_out_norm_(load_f32_gain(loader, w, "post_attention_layernorm", dims.layers.hidden)),
        ffn_norm_(load_f32_gain(loader, w, "pre_feedforward_layernorm", dims.layers.hidden)),
        ffn_out_norm_(load_f32_gain(loader, w, "post_feedforward_layernorm", dims.layers.hidden)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid& grid) override {
    const float eps = dims_.layers.eps;
    const Tensor mixed = attention_.forward(op, op.rms_norm(x, attn_norm_, eps), grid);
    const Tensor y = op.add(x, op.rms_norm(mixed, attn_out_norm_, eps)), normed = op.rms_norm(y, ffn_norm_, eps);
    const Tensor z = down_.forward(op, op.glu(gate_.forward(op, normed), up_.forward(op, normed), dims_.act));
    return op.add(y, op.rms_norm(z, ffn_out_norm_, eps));
  }

 private:
  const Dims& dims_;
  Gemma4Attention attention_;
  BoundedLinear gate_, up_, down_;                             // [ffn, hidden] x2, [hidden, ffn]
  Owned attn_norm_, attn_out_norm_, ffn_norm_, ffn_out_norm_;  // [hidden]
};

/// Channels of what is pooled, and how each is centered and scaled.
struct Standard {
  std::vector<float> bias, scale;  // [hidden]
};

Standard read_standard(const Dims& dims, const WeightBinder& w) {
  const auto n = static_cast<size_t>(dims.layers.hidden);
  Standard standard{std::vector<float>(n, 0.0f), std::vector<float>(n, 1.0f)};
  if (!dims.standardized) return standard;
  for (auto& [name, values] : {std::pair{"std_bias", &standard.bias}, {"std_scale", &standard.scale}}) {
    const Tensor stored = w(name, {dims.layers.hidden});
    convert_to_float(stored.dtype, stored.data, values->data(), n);
  }
  return standard;
}

class Gemma4Output final : public TowerPart {
 public:
  Gemma4Output(const Dims& dims, int64_t out_hidden, WeightLoader& loader, WeightBinder& w)
      : dims_(dims),
        standard_(read_standard(dims, w.at("vision_tower."))),
        projection_(
            loader.load_linear(w("embed_vision.embedding_projection.weight", {out_hidden, dims.layers.hidden}))) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor pooled = mean_of_rows(op, x, dims_.patches.merge * dims_.patches.merge);
    return op.linear(op.rms_norm(standardized(op, pooled), {}, dims_.layers.eps), projection_);
  }

 private:
  /// (x · sqrt(hidden) - bias) · scale, in F32, rounded once: the difference cancels much.
  Tensor standardized(Ops& op, const Tensor& x) const {
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(x.dim(1))));
    std::vector<float> values = on_host(op, x);
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t c = i % standard_.bias.size();
      values[i] = (values[i] * root - standard_.bias[c]) * standard_.scale[c];
    }
    return on_device(op, values, x.shape);
  }

  const Dims& dims_;
  Standard standard_;
  Linear projection_;  // [the model's hidden size, hidden]
};

class Gemma4Tower final : public VisionTower {
 public:
  Gemma4Tower(Dims dims, const ModelSpec& model) : dims_(std::move(dims)), out_hidden_(model.hidden) {
    const DecoderDims& d = dims_.layers;
    spec_.token = model.placeholders.front();
    spec_.text = {"<|image|>", "<|image><|image|><image|>"};
    spec_.patches = dims_.patches;
    spec_.hidden = d.hidden;
    spec_.activations = 15 * d.hidden + 13 * d.n_heads * d.head_dim + 6 * d.ffn + 2 * dims_.patches.values();
    spec_.n_blocks = static_cast<int>(d.n_layers);
    spec_.prefixes = {"model.", ""};
    spec_.modules = {"embed_vision.", "vision_tower."};
    spec_.first = "vision_tower.patch_embedder.input_proj.weight";
  }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Gemma4Input>(dims_, loader, w.at("vision_tower.patch_embedder."));
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Gemma4Layer>(dims_, loader,
                                         w.at("vision_tower.encoder.layers." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Gemma4Output>(dims_, out_hidden_, loader, w);
  }

 private:
  Dims dims_;
  int64_t out_hidden_;
};

DecoderDims read_layers(const Json& vision) {
  DecoderDims d{};
  d.hidden = read_size(vision, "hidden_size", 768);
  d.ffn = read_size(vision, "intermediate_size", 3072);
  d.n_layers = read_size(vision, "num_hidden_layers", 16);
  d.n_heads = read_size(vision, "num_attention_heads", 12);
  d.n_kv_heads = read_size(vision, "num_key_value_heads", 12);
  d.head_dim = read_size(vision, "head_dim", 64);
  d.eps = static_cast<float>(get_number_or(vision, "rms_norm_eps", 1e-6));
  expect_size("num_key_value_heads", d.n_heads % d.n_kv_heads == 0, d.n_kv_heads,
              "a divisor of " + std::to_string(d.n_heads));
  expect_size("head_dim", d.head_dim % 4 == 0, d.head_dim, "a multiple of 4");
  return d;
}

}  // namespace

std::unique_ptr<VisionTower> read_gemma4_tower(const Json& config, const ModelSpec& model) {
  const Json& vision = vision_config(config);
  expect_word(vision, "model_type", "gemma4_vision");
  Dims dims;
  dims.layers = read_layers(vision);
  dims.patches = {read_size(vision, "patch_size", 16), read_size(vision, "pooling_kernel_size", 3), 1,
                  kGemma4Processor};
  expect_size("patch_size", dims.patches.size <= 256, dims.patches.size, "at most 256");
  const int64_t pooled = dims.patches.merge;  // with 1 the reference framework keeps its padding
  expect_size("pooling_kernel_size", pooled >= 2 && pooled <= 16, pooled, "2 to 16");
  dims.act = read_activation(vision, "hidden_activation", dims.act);
  dims.rope = columns_then_rows(dims.layers.head_dim, read_axial_theta(vision, 100));
  dims.n_positions = read_size(vision, "position_embedding_size", 10240);
  dims.clipped = get_bool_or(vision, "use_clipped_linears", false);
  dims.standardized = get_bool_or(vision, "standardize", false);
  return std::make_unique<Gemma4Tower>(std::move(dims), model);
}

}  // namespace kvcal
