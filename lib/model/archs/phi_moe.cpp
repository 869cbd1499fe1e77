// PhiMoEForCausalLM (Phi-3.5-MoE, Phi-mini-MoE): attention of Mixtral behind layer norms, two experts a token in every
// layer, each weighted among the logits that come near its own; perhaps biases of attention and of the output head;
// longrope with magnitudes that the config gives. vLLM and SGLang read no window, and no tied embeddings.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/layers/self_attention.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32064,
                                       .hidden = 4096,
                                       .ffn = 6400,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {1000000};
constexpr int64_t kDefaultExperts = 16, kActive = 2;
constexpr double kDefaultJitter = 0.01;

constexpr MoeNames kNames = {.gate = "w1", .up = "w3", .down = "w2"};

MoeDims read_moe(const Json& text, const DecoderDims& dims) {
  MoeDims moe{};
  moe.hidden = dims.hidden;
  moe.n_experts = read_size(text, "num_local_experts", kDefaultExperts);
  moe.ffn = dims.ffn;
  if (const int64_t k = get_int_or(text, "num_experts_per_tok", kActive); k != kActive)
    fail("num_experts_per_tok is " + std::to_string(k) + ", expected 2: the routing is defined for two experts");
  moe.routing = {.k = kActive,
                 .scoring = Scoring::NearBest,
                 .jitter = static_cast<float>(get_number_or(text, "router_jitter_noise", kDefaultJitter))};
  check_moe_dims(moe);
  return moe;
}

class PhiMoe final : public LayerNormModel {
 public:
  explicit PhiMoe(const Json& config) : LayerNormModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    moe_ = read_moe(text, dims_);
    bias_ = read_bias(text, "attention_bias");
    logits_.bias = read_bias(text, "lm_head_bias");
    const int64_t window = find_member(text, "sliding_window") ? read_size(text, "sliding_window") : 0;
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_attention_layer(spec_, dims_, rope_, window);
      count_moe_layer(spec_.layers.back(), moe_, dims_.ffn);
    }
    spec_.rope_switch = longrope_switch(text, dims_.head_dim);
    spec_.above_rope_switch = get_int_or(text, kServedPositions, dims_.max_positions) > spec_.rope_switch;
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    DecoderBlockParts parts{.before_mixer = load_norm(loader, w, "input_layernorm"),
                            .before_ffn = load_norm(loader, w, "post_attention_layernorm")};
    const AttentionForm form{.qkv = bias_, .o = bias_};
    parts.mixer = std::make_unique<SelfAttention>(dims_, cache, rope_, form, loader, w);
    parts.ffn = SparseMoe(moe_, load_moe(moe_, kNames, loader, w.at(moe_module(w, kNames))));
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  RopeSpec rope_;
  MoeDims moe_{};
  Bias bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_phi_moe(const Json& config) { return std::make_unique<PhiMoe>(config); }

}  // namespace kvcal
