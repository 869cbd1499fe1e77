// Every picture is a square of patches, each with a learned position; blocks have layer norm and see the whole picture;
// behind them the patches of a small square become one row, their mean (docs/model-notes.md, "Images").
#include "model/gemma3_tower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/config_reading.h"
#include "model/decoder_parts.h"
#include "model/weight_rows.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

struct Gemma3Dims {
  DecoderDims siglip{};  // sizes of its layers
  int64_t out_hidden = 0;
  PatchShape patches;
  Activation act = Activation::GeluTanh;

  PatchGrid grid() const { return {patches.side, patches.side}; }
};

/// Older files have one more module around it.
WeightBinder siglip_of(const WeightBinder& w) {
  constexpr const char* kOlder = "vision_tower.vision_model.";
  return w.at(w.at(kOlder).has("post_layernorm.weight") ? kOlder : "vision_tower.");
}

class SiglipInput final : public TowerPart {
 public:
  SiglipInput(const Gemma3Dims& dims, WeightLoader& loader, WeightBinder w) {
    const int64_t hidden = dims.siglip.hidden, size = dims.patches.size;
    const Tensor kernel = w("embeddings.patch_embedding.weight", {hidden, 3, size, size});
    projection_ = loader.load_linear(kernel.reshaped({hidden, dims.patches.values()}),
                                     w("embeddings.patch_embedding.bias", {hidden}));
    table_ = w("embeddings.position_embedding.weight", {dims.grid().n_patches(), hidden});
    for (int64_t i = 0; i < dims.grid().n_patches(); ++i) {
      const PatchPlace place = place_of(i, dims.grid(), dims.patches.merge);
      positions_.push_back(static_cast<int32_t>(place.row * dims.patches.side + place.column));
    }
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    return op.add(op.linear(x, projection_), op.embed(table_, positions_));
  }

 private:
  Linear projection_;               // [hidden, patch]
  Tensor table_;                    // [patches, hidden], by rows of the picture
  std::vector<int32_t> positions_;  // [patches]
};

class SiglipBlock final : public TowerPart {
 public:
  SiglipBlock(const Gemma3Dims& dims, WeightLoader& loader, WeightBinder w)
      : d_(dims.siglip),
        norm1_(load_layer_norm(loader, w, "layer_norm1", d_.hidden, d_.eps)),
        norm2_(load_layer_norm(loader, w, "layer_norm2", d_.hidden, d_.eps)),
        qkv_(load_qkv(loader, w, d_, Bias::Present)),
        out_(load_projection(loader, w, "self_attn.out_proj", d_.hidden, d_.hidden, Bias::Present)),
        mlp_(loader.load_mlp(projection(w, "mlp.fc1", d_.ffn, d_.hidden, Bias::Present),
                             projection(w, "mlp.fc2", d_.hidden, d_.ffn, Bias::Present), dims.act)) {}

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor y = op.add(x, attend_to_all(op, norm1_.forward(op, x)));
    return op.add(y, op.glu_mlp(norm2_.forward(op, y), mlp_));
  }

 private:
  Tensor attend_to_all(Ops& op, const Tensor& x) const {
    const int64_t n = x.dim(0);
    const HeadsPart part = {d_.head_dim, {}, false}, parts[] = {part, part, part};
    const auto qkv = op.project_heads(x, qkv_, {parts, d_.eps, {}, RopeSpec{}});
    const std::vector<int32_t> last(static_cast<size_t>(n), static_cast<int32_t>(n - 1));
    const Span spans[] = {{0, n, 0}};
    KvRows* const kept[] = {nullptr};
    AttentionSpec attention;
    attention.scale = 1.0f / std::sqrt(static_cast<float>(d_.head_dim));
    attention.last_keys = last;
    const Tensor o = op.attention(qkv[0], qkv[1], qkv[2], spans, kept, attention);
    return op.linear(o.reshaped({n, d_.hidden}), out_);
  }

  const DecoderDims& d_;
  Norm norm1_, norm2_;  // [hidden]
  LinearGroup qkv_;     // [hidden, hidden] x3
  Linear out_;          // [hidden, hidden]
  GluWeights mlp_;
};

/// x [rows · n, hidden] -> [rows, hidden]: the mean of every n rows, in F32, rounded once.
Tensor mean_of_rows(Ops& op, const Tensor& x, int64_t n) {
  const int64_t hidden = x.dim(1);
  const Storage all(x.shape, x.dtype), means({x.dim(0) / n, hidden}, x.dtype);
  op.download(x, all.tensor());
  std::vector<float> row(static_cast<size_t>(hidden)), mean(row.size());
  for (int64_t i = 0; i < x.dim(0); ++i) {
    if (i % n == 0) std::fill(mean.begin(), mean.end(), 0.0f);
    convert_to_float(x.dtype, all.tensor().rows(i, 1).data, row.data(), row.size());
    for (size_t c = 0; c < row.size(); ++c) mean[c] += row[c];
    if (i % n < n - 1) continue;
    for (float& value : mean) value /= static_cast<float>(n);
    const Tensor to = means.tensor().rows(i / n, 1);
    if (x.dtype == DType::F32) {
      std::copy(mean.begin(), mean.end(), to.as<float>());
    } else {
      convert_to_bf16(DType::F32, mean.data(), to.as<bf16>(), mean.size());
    }
  }
  return op.upload(means.tensor());
}

class Gemma3Output final : public TowerPart {
 public:
  Gemma3Output(const Gemma3Dims& dims, WeightLoader& loader, WeightBinder siglip, WeightBinder projector)
      : eps_(dims.siglip.eps),
        per_row_(dims.patches.merge * dims.patches.merge),
        last_norm_(load_layer_norm(loader, siglip, "post_layernorm", dims.siglip.hidden, eps_)),
        gain_(loader.load_gain(projector("mm_soft_emb_norm.weight", {dims.siglip.hidden}), Gain::OnePlus)) {
    const Tensor weight = projector("mm_input_projection_weight", {dims.siglip.hidden, dims.out_hidden});
    projection_ = loader.load_linear(transposed(weight).tensor());
  }

  Tensor forward(Ops& op, const Tensor& x, const PatchGrid&) override {
    const Tensor pooled = mean_of_rows(op, last_norm_.forward(op, x), per_row_);
    return op.linear(op.rms_norm(pooled, gain_, eps_), projection_);
  }

 private:
  float eps_;
  int64_t per_row_;
  Norm last_norm_;     // [hidden]
  Owned gain_;         // [hidden]
  Linear projection_;  // [the model's hidden size, hidden]
};

class Gemma3Tower final : public VisionTower {
 public:
  Gemma3Tower(const Gemma3Dims& dims, TowerSpec spec) : dims_(dims) { spec_ = std::move(spec); }

  std::unique_ptr<TowerPart> load_input(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<SiglipInput>(dims_, loader, siglip_of(w));
  }
  std::unique_ptr<TowerPart> load_block(int block, WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<SiglipBlock>(dims_, loader,
                                         siglip_of(w).at("encoder.layers." + std::to_string(block) + "."));
  }
  std::unique_ptr<TowerPart> load_output(WeightLoader& loader, WeightBinder& w) const override {
    return std::make_unique<Gemma3Output>(dims_, loader, siglip_of(w), w.at("multi_modal_projector."));
  }

 private:
  Gemma3Dims dims_;
};

/// The mean of squares of merge x merge patches makes as many rows as mm_tokens_per_image.
PatchShape read_patches(const Json& config, const Json& vision) {
  const int64_t image = read_size(vision, "image_size", 224), size = read_size(vision, "patch_size", 16);
  const int64_t rows = read_size(config, "mm_tokens_per_image", 256), side = image / size;
  const auto per_side = static_cast<int64_t>(std::sqrt(static_cast<double>(rows)));
  expect_size("patch_size", size <= 256, size, "at most 256");
  expect_size("image_size", image % size == 0 && side <= 1024, image,
              "at most 1,024 whole patches of " + std::to_string(size));
  expect_size("mm_tokens_per_image", per_side * per_side == rows && side % per_side == 0, rows,
              "a square number whose root divides " + std::to_string(side));
  return {size, side / per_side, 1, kGemma3Processor, side};
}

Gemma3Dims read_dims(const Json& config, const Json& vision, const ModelSpec& model) {
  Gemma3Dims dims;
  DecoderDims& d = dims.siglip;
  d.hidden = read_size(vision, "hidden_size", 768);
  d.ffn = read_size(vision, "intermediate_size", 3072);
  d.n_layers = read_size(vision, "num_hidden_layers", 12);
  d.n_heads = d.n_kv_heads = read_size(vision, "num_attention_heads", 12);
  d.head_dim = d.hidden / d.n_heads;
  d.eps = static_cast<float>(get_number_or(vision, "layer_norm_eps", 1e-6));
  dims.out_hidden = model.hidden;
  dims.patches = read_patches(config, vision);
  dims.act = read_activation(vision, "hidden_act", dims.act);
  const int64_t channels = read_size(vision, "num_channels", 3);
  expect_size("num_channels", channels == 3, channels, "3");
  expect_size("hidden_size", d.hidden % d.n_heads == 0, d.hidden, "a multiple of " + std::to_string(d.n_heads));
  if (const std::string type = get_string_or(vision, "model_type", "siglip_vision_model");
      type != "siglip_vision_model")
    fail("model_type is " + quoted(type) + ", expected siglip_vision_model");
  return dims;
}

}  // namespace

std::unique_ptr<VisionTower> read_gemma3_tower(const Json& config, const ModelSpec& model) {
  const Gemma3Dims dims = read_dims(config, vision_config(config), model);
  TowerSpec spec;
  spec.token = model.placeholders.front();
  spec.text = {"<start_of_image>", "\n\n<start_of_image><image_soft_token><end_of_image>\n\n"};
  spec.patches = dims.patches;
  spec.hidden = dims.siglip.hidden;
  spec.activations = 12 * dims.siglip.hidden + 3 * dims.siglip.ffn + 2 * dims.patches.values();
  spec.n_blocks = static_cast<int>(dims.siglip.n_layers);
  spec.prefixes = {"", "model."};
  spec.modules = {"multi_modal_projector.", "vision_tower."};
  spec.first = "multi_modal_projector.mm_input_projection_weight";
  return std::make_unique<Gemma3Tower>(dims, std::move(spec));
}

}  // namespace kvcal
