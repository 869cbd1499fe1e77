// FalconH1ForCausalLM: attention and Mamba-2 side by side in every layer, with multipliers on nearly everything
// (docs/model-notes.md, "Mamba"). Keys are multiplied before RoPE, so the cache holds the product.
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/mamba2.h"
#include "model/layers/multipliers.h"
#include "model/layers/self_attention.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 128000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 8192,
                                       .eps = 1e-5};

struct BranchMultipliers {
  float attention_in, attention_out, ssm_in, ssm_out, gate, down;
};

struct FalconH1Block final : Block {
  float eps;
  BranchMultipliers m;
  Owned norm, ffn_norm;  // [hidden]
  SelfAttention attention;
  Mamba2 mamba;
  Linear gate, up, down;  // [ffn, hidden] x2, [hidden, ffn]

  FalconH1Block(const DecoderDims& d, const BranchMultipliers& multipliers, SelfAttention a, Mamba2 s, Bias bias,
                WeightLoader& loader, WeightBinder w)
      : eps(d.eps),
        m(multipliers),
        norm(loader.load_gain(w("input_layernorm.weight", {d.hidden}), Gain::Plain)),
        ffn_norm(loader.load_gain(w("pre_ff_layernorm.weight", {d.hidden}), Gain::Plain)),
        attention(std::move(a)),
        mamba(std::move(s)),
        gate(load_projection(loader, w, "feed_forward.gate_proj", d.ffn, d.hidden, bias)),
        up(load_projection(loader, w, "feed_forward.up_proj", d.ffn, d.hidden, bias)),
        down(load_projection(loader, w, "feed_forward.down_proj", d.hidden, d.ffn, bias)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor n = op.rms_norm(x, norm, eps);
    const Tensor attended = attention.forward(op, scaled(op, n, m.attention_in), batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const Tensor scanned = mamba.forward(op, scaled(op, n, m.ssm_in), batch, states, tap, tail);
    const Tensor mixed = op.add(scaled(op, scanned, m.ssm_out), scaled(op, attended, m.attention_out));
    const auto [y, normed] = op.add_rms_norm(x, mixed, ffn_norm, eps);
    const Tensor product = op.glu(scaled(op, op.linear(normed, gate), m.gate), op.linear(normed, up));
    return op.add(y, scaled(op, op.linear(product, down), m.down));
  }
};

// Numbers under a key that holds a list of just so many; absent: ones.
template <size_t N>
std::array<float, N> read_factors(const Json& config, const char* key) {
  std::array<float, N> factors;
  factors.fill(1);
  const Json* list = find_member(config, key);
  if (!list) return factors;
  if (!list->is_array() || list->size() != N)
    fail(std::string(key) + " is not a list of " + std::to_string(N) + " numbers");
  for (size_t i = 0; i < N; ++i) factors[i] = read_factor(Json{{key, (*list)[i]}}, key);
  return factors;
}

// Servers turn the first attn_rotary_emb dimensions of a head where an older file says so.
RopeSpec read_positions(const Json& config, int64_t head_dim) {
  const int64_t turned = read_size(config, "attn_rotary_emb", head_dim);
  if (turned > head_dim)
    fail("attn_rotary_emb is " + std::to_string(turned) + ", expected at most " + std::to_string(head_dim));
  return read_rope(config, head_dim, {10000, static_cast<double>(turned) / static_cast<double>(head_dim)});
}

Mamba2Dims read_mamba(const Json& config, const DecoderDims& dims) {
  constexpr int64_t kDefaultInner = 1024;
  const Json* inner = find_member(config, "mamba_d_ssm");
  const bool derived = config.contains("mamba_d_ssm") && !inner;  // null: by mamba_expand
  Mamba2Dims d =
      read_mamba2_dims(config, dims.hidden, dims.eps, derived ? 0 : read_size(config, "mamba_d_ssm", kDefaultInner));
  d.normed = get_bool_or(config, "mamba_rms_norm", false);
  d.order = get_bool_or(config, "mamba_norm_before_gate", true) ? GateOrder::AfterNorm : GateOrder::BeforeNorm;
  d.out_bias = read_bias(config, "projectors_bias");
  d.factors = read_factors<5>(config, "ssm_multipliers");
  return d;
}

class FalconH1 final : public DecoderModel {
 public:
  explicit FalconH1(const Json& config) : dims_(read_decoder_dims(config, kDefaults)) {
    final_eps_ = dims_.eps;
    rope_ = read_positions(config, dims_.head_dim);
    mamba_ = read_mamba(config, dims_);
    const auto mlp = read_factors<2>(config, "mlp_multipliers");
    multipliers_ = {read_factor(config, "attention_in_multiplier"),
                    read_factor(config, "attention_out_multiplier"),
                    read_factor(config, "ssm_in_multiplier"),
                    read_factor(config, "ssm_out_multiplier"),
                    mlp[0],
                    mlp[1]};
    embedding_factor_ = read_factor(config, "embedding_multiplier");
    logits_.factor = read_factor(config, "lm_head_multiplier");
    const Bias bias = read_bias(config, "attention_bias");
    attention_ = {.qkv = bias, .o = bias, .key_factor = read_factor(config, "key_multiplier")};
    mlp_bias_ = read_bias(config, "mlp_bias");
    spec_ = general_spec(config, dims_);
    spec_.final_norm = "final_layernorm.weight";
    const MixerSize scan = Mamba2::size(mamba_);
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_attention_layer(spec_, dims_, rope_, 0);
      LayerSpec& layer = spec_.layers.back();
      // Beside attention and the scan: two more rows of inputs, three of results, keys and gates multiplied.
      layer.activations += scan.activations + 6 * dims_.hidden + dims_.ffn + 2 * dims_.n_kv_heads * dims_.head_dim;
      set_state(layer, scan);
    }
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<FalconH1Block>(dims_, multipliers_,
                                           SelfAttention(dims_, *cache, rope_, attention_, loader, w),
                                           Mamba2(mamba_, loader, w.at("mamba.")), mlp_bias_, loader, w);
  }

  DecoderDims dims_;
  RopeSpec rope_;
  Mamba2Dims mamba_{};
  BranchMultipliers multipliers_{};
  AttentionForm attention_;
  Bias mlp_bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_falcon_h1(const Json& config) { return std::make_unique<FalconH1>(config); }

}  // namespace kvcal
