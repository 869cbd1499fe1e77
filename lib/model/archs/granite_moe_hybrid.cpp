// GraniteMoeHybridForCausalLM (Granite 4): Mamba-2 and attention, factors on embeddings, attention, branches and
// logits; a shared feed-forward in every layer, beside experts or alone (docs/model-notes.md, "Mamba").
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/mamba2.h"
#include "model/layers/multipliers.h"
#include "model/layers/self_attention.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 32000, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048};

// Published and most re-saved files have the experts' weights under names of their own; some unroll them.
constexpr MoeNames kNames = {
    .router = "router.layer", .gate_up = "input_linear.weight", .fused_down = "output_linear.weight"};

RopeSpec read_positions(const Json& config, int64_t head_dim) {
  const std::string type = get_string_or(config, "position_embedding_type", "nope");
  if (type == "rope") return read_rope(config, head_dim, {});
  if (type != "nope") fail_unknown("position_embedding_type", type, std::vector<std::string>{"nope", "rope"});
  return {};
}

MoeDims read_moe(const Json& config, int64_t hidden, int64_t ffn) {
  MoeDims d{};
  d.hidden = hidden;
  d.ffn = ffn;
  d.n_experts = get_int_or(config, "num_local_experts", 8);
  d.routing.k = get_int_or(config, "num_experts_per_tok", 2);
  d.routing.renormalize = true;
  d.shared_ffn = read_size(config, "shared_intermediate_size", 1024);
  check_moe_dims(d);
  return d;
}

// "input_linear": gate rows, then up rows.
GluWeights load_shared_mlp(const MoeDims& d, WeightLoader& loader, WeightBinder w) {
  const HostLinear both = projection(w, "input_linear", 2 * d.shared_ffn, d.hidden);
  return loader.load_glu(both.rows(0, d.shared_ffn), both.rows(d.shared_ffn, d.shared_ffn),
                         projection(w, "output_linear", d.hidden, d.shared_ffn));
}

class GraniteMoeHybrid final : public DecoderModel {
 public:
  explicit GraniteMoeHybrid(const Json& config) : dims_(read_decoder_dims(config, kDefaults)) {
    final_eps_ = dims_.eps;
    rope_ = read_positions(config, dims_.head_dim);
    mamba_ = read_mamba2_dims(config, dims_.hidden, dims_.eps);
    moe_ = read_moe(config, dims_.hidden, dims_.ffn);
    const Bias bias = read_bias(config, "attention_bias");
    attention_ = {.qkv = bias, .o = bias};
    multipliers_ = read_multipliers(config);
    embedding_factor_ = multipliers_.embedding;
    logits_.factor = multipliers_.logits;
    spec_ = general_spec(config, dims_);
    add_layers(config);
  }

 private:
  void add_layers(const Json& config) {
    auto words = read_mixer_words(config, {"layer_types", "layers_block_type"}, {"linear_attention", "full_attention"});
    if (!words) words.emplace(static_cast<size_t>(dims_.n_layers), "linear_attention");
    if (static_cast<int64_t>(words->size()) != dims_.n_layers)
      fail("layer_types has " + std::to_string(words->size()) + " entries, expected " + std::to_string(dims_.n_layers) +
           " (num_hidden_layers)");
    DecoderDims shared = dims_;  // what is always there, and the experts beside it
    shared.ffn = moe_.shared_ffn;
    for (const std::string& word : *words) {
      if (word == "full_attention")
        add_attention_layer(spec_, shared, rope_, 0).softmax_scale = multipliers_.attention;
      else
        add_recurrent_layer(spec_, LayerKind::Mamba2, Mamba2::size(mamba_), shared.ffn);
      LayerSpec& layer = spec_.layers.back();
      if (moe_.n_experts > 0) count_moe_layer(layer, moe_, shared.ffn);
      if (multipliers_.residual != 1) layer.activations += 2 * dims_.hidden;
    }
  }

  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    parts.factor = multipliers_.residual;
    if (cache)
      parts.mixer = std::make_unique<SelfAttention>(dims_, *cache, rope_, attention_, loader, w);
    else
      parts.mixer = std::make_unique<Mamba2>(mamba_, loader, w.at("mamba."));
    parts.ffn = load_feed_forward(loader, w);
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  FeedForward load_feed_forward(WeightLoader& loader, WeightBinder& w) const {
    GluWeights shared = load_shared_mlp(moe_, loader, w.at("shared_mlp."));
    if (moe_.n_experts == 0) return GluMlp(std::move(shared));
    MoeDims routed = moe_;
    routed.shared_ffn = 0;
    MoeParts parts = load_moe(routed, kNames, loader, w.at("block_sparse_moe."));
    parts.shared = std::move(shared);
    return SparseMoe(moe_, std::move(parts));
  }

  DecoderDims dims_;
  RopeSpec rope_;
  Mamba2Dims mamba_{};
  MoeDims moe_{};
  AttentionForm attention_;
  Multipliers multipliers_;
};

}  // namespace

std::unique_ptr<Model> parse_granite_moe_hybrid(const Json& config) {
  return std::make_unique<GraniteMoeHybrid>(config);
}

}  // namespace kvcal
