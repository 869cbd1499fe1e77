// Lfm2ForCausalLM, Lfm2MoeForCausalLM and Lfm2VlForConditionalGeneration (text part): short convolutions, and attention
// with norms of q and k before RoPE; SwiGLU, or experts chosen by biased sigmoids behind the first dense layers
// (docs/model-notes.md, "Short convolution").
#include <algorithm>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/self_attention.h"
#include "model/layers/short_conv.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDense = {.vocab = 65536,
                                    .hidden = 2560,
                                    .ffn = 12288,
                                    .n_layers = 32,
                                    .n_heads = 32,
                                    .n_kv_heads = 8,
                                    .max_positions = 128000,
                                    .tied_head = true,
                                    .eps_key = "norm_eps",
                                    .eps = 1e-5};
constexpr DecoderDefaults kSparse = {.vocab = 65536,
                                     .hidden = 2048,
                                     .ffn = 7168,
                                     .n_layers = 32,
                                     .n_heads = 32,
                                     .n_kv_heads = 8,
                                     .max_positions = 128000,
                                     .tied_head = true,
                                     .eps_key = "norm_eps",
                                     .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {1000000, 1};
constexpr AttentionForm kAttention = {
    .norm = QkNorm::PerHead, .q_norm = "q_layernorm", .k_norm = "k_layernorm", .output = "out_proj"};
constexpr MoeNames kNames = {.choice_bias = "expert_bias", .gate = "w1", .up = "w3", .down = "w2"};

// "tie_embedding" is the older key.
DecoderDims read_dims(const Json& config, const DecoderDefaults& defaults) {
  DecoderDims d = read_decoder_dims(config, defaults);
  d.tied_head = get_bool_or(text_config(config), "tie_embedding", d.tied_head);
  return d;
}

// The dense width: two thirds of the given one, times a factor, rounded up; unless the file says that it is final.
int64_t dense_width(const Json& text, int64_t given) {
  const int64_t ffn = read_size(text, "block_ff_dim", given);
  if (!get_bool_or(text, "block_auto_adjust_ff_dim", true)) return ffn;
  const double factor = get_number_or(text, "block_ffn_dim_multiplier", 1.0);
  if (!(factor > 0 && factor < 1024)) fail("block_ffn_dim_multiplier is not a number above 0 and below 1024");
  const int64_t multiple = read_size(text, "block_multiple_of", 256);
  const auto width = static_cast<int64_t>(factor * static_cast<double>(2 * ffn / 3));
  return std::max<int64_t>(1, (width + multiple - 1) / multiple) * multiple;
}

// layer_types, or the numbers of the attention layers; without either all attend.
std::vector<bool> read_attention_layers(const Json& text, int64_t n_layers) {
  std::vector<bool> attends(static_cast<size_t>(n_layers), true);
  if (const auto words = read_layer_types(text, n_layers, {"conv", "full_attention"})) {
    for (size_t i = 0; i < attends.size(); ++i) attends[i] = (*words)[i] == "full_attention";
    return attends;
  }
  const Json* list = find_member(text, "full_attn_idxs");
  if (!list) return attends;
  if (!list->is_array()) fail("full_attn_idxs is not a list");
  attends.assign(attends.size(), false);
  for (const Json& i : *list) {
    if (!i.is_number_integer() || i.get<int64_t>() < 0 || i.get<int64_t>() >= n_layers)
      fail("full_attn_idxs holds " + quoted(i.dump()) + ", expected layer numbers below " + std::to_string(n_layers));
    attends[i.get<size_t>()] = true;
  }
  return attends;
}

MoeDims read_moe(const Json& text, int64_t hidden) {
  constexpr float kAddedToSum = 1e-6f;  // by the reference; sums of chosen sigmoids are far above it
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = read_size(text, "num_experts", 32);
  d.ffn = read_size(text, "moe_intermediate_size", 1792);
  d.routing.k = get_int_or(text, "num_experts_per_tok", 4);
  d.routing.scoring = Scoring::Sigmoid;
  d.routing.renormalize = get_bool_or(text, "norm_topk_prob", true);
  d.routing.least_sum = kAddedToSum;
  d.routing.scale = read_factor(text, "routed_scaling_factor");
  check_moe_dims(d);
  return d;
}

class Lfm2 final : public DecoderModel {
 public:
  Lfm2(const Json& config, bool sparse)
      : dims_(read_dims(config, sparse ? kSparse : kDense)), n_dense_layers_(dims_.n_layers) {
    const Json& text = text_config(config);
    final_eps_ = dims_.eps;
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    conv_ = {dims_.hidden, read_size(text, "conv_L_cache", 3), read_bias(text, "conv_bias")};
    check_product("a convolution", {conv_.hidden, conv_.hidden, conv_.kernel});
    if (sparse) {
      moe_ = read_moe(text, dims_.hidden);
      if (!get_bool_or(text, "use_expert_bias", true)) names_.choice_bias = nullptr;
      n_dense_layers_ = get_int_or(text, "num_dense_layers", 2);
    } else {
      dims_.ffn = dense_width(text, dims_.ffn);
    }
    spec_ = general_spec(config, dims_);
    spec_.final_norm = "embedding_norm.weight";
    if (find_member(config, "text_config")) spec_.default_prefix = "model.language_model.";
    for (const bool attends : read_attention_layers(text, dims_.n_layers)) {
      if (attends) {
        add_attention_layer(spec_, dims_, rope_, 0);
        name_tensors(spec_.layers.back().attention, kAttention);
      } else {
        add_recurrent_layer(spec_, LayerKind::ShortConv, ShortConv::size(conv_), dims_.ffn);
      }
      if (is_sparse(spec_.layers.back())) count_moe_layer(spec_.layers.back(), moe_, dims_.ffn);
    }
  }

 private:
  bool is_sparse(const LayerSpec& layer) const { return layer.index >= n_dense_layers_; }

  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("operator_norm"), .before_ffn = norm("ffn_norm")};
    if (cache)
      parts.mixer = std::make_unique<SelfAttention>(dims_, *cache, rope_, kAttention, loader, w);
    else
      parts.mixer = std::make_unique<ShortConv>(conv_, loader, w.at("conv."));
    parts.ffn = load_feed_forward(layer, loader, w.at("feed_forward."));
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  FeedForward load_feed_forward(const LayerSpec& layer, WeightLoader& loader, WeightBinder w) const {
    if (is_sparse(layer)) return SparseMoe(moe_, load_moe(moe_, names_, loader, w));
    const int64_t n = dims_.hidden;
    return GluMlp(loader.load_glu(projection(w, "w1", dims_.ffn, n), projection(w, "w3", dims_.ffn, n),
                                  projection(w, "w2", n, dims_.ffn)));
  }

  DecoderDims dims_;
  int64_t n_dense_layers_;
  RopeSpec rope_;
  ShortConvDims conv_{};
  MoeDims moe_{};
  MoeNames names_ = kNames;
};

}  // namespace

std::unique_ptr<Model> parse_lfm2(const Json& config) { return std::make_unique<Lfm2>(config, false); }
std::unique_ptr<Model> parse_lfm2_moe(const Json& config) { return std::make_unique<Lfm2>(config, true); }

}  // namespace kvcal
