// ApertusForCausalLM: RMSNorm over each head of q and k before RoPE, and a feed-forward of two projections with xIELU
// between them, whose parameters each layer has learned for itself.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"
#include "model/self_attention.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 131072,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 0,
                                       .head_dim = 0,
                                       .max_positions = 65536,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {12000000};
constexpr float kBeta = 0.5f, kEps = -1e-6f;

/// "act_fn.NAME", of one element; the class's constant where a file leaves it out.
Owned load_number(WeightLoader& loader, WeightBinder& w, const std::string& name, const float* constant = nullptr) {
  const std::string full = "mlp.act_fn." + name;
  if (constant && !w.has(full)) return loader.load_f32({const_cast<float*>(constant), {1}, DType::F32});
  const TensorInfo* info = w.info(full);
  const bool scalar = info && info->shape.rank() == 0;
  return loader.load_f32(scalar ? w(full, {}).reshaped({1}) : w(full, {1}));
}

struct ApertusBlock final : Block {
  float eps;
  Owned attn_norm, ffn_norm;  // [hidden]
  SelfAttention attention;
  Linear up, down;                     // [ffn, hidden], [hidden, ffn]
  Owned alpha_p, alpha_n, beta, knee;  // [1]

  ApertusBlock(const DecoderDims& d, const KvLayout& layout, const RopeSpec& rope, const AttentionForm& form, Bias bias,
               WeightLoader& loader, WeightBinder w)
      : eps(d.eps),
        attn_norm(loader.load_gain(w("attention_layernorm.weight", {d.hidden}), Gain::Plain)),
        ffn_norm(loader.load_gain(w("feedforward_layernorm.weight", {d.hidden}), Gain::Plain)),
        attention(d, layout, rope, form, loader, w),
        up(load_projection(loader, w, "mlp.up_proj", d.ffn, d.hidden, bias)),
        down(load_projection(loader, w, "mlp.down_proj", d.hidden, d.ffn, bias)),
        alpha_p(load_number(loader, w, "alpha_p")),
        alpha_n(load_number(loader, w, "alpha_n")),
        beta(load_number(loader, w, "beta", &kBeta)),
        knee(load_number(loader, w, "eps", &kEps)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor mixed = attention.forward(op, op.rms_norm(x, attn_norm, eps), batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const auto [y, normed] = op.add_rms_norm(x, mixed, ffn_norm, eps);
    return op.add(y, op.linear(op.xielu(op.linear(normed, up), {alpha_p, alpha_n, beta, knee}), down));
  }
};

class Apertus final : public AttentionModel {
 public:
  explicit Apertus(const Json& config) : AttentionModel(config, read_dims(config)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    const Bias bias = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    form_ = {.qkv = bias, .o = bias, .norm = QkNorm::PerHead};
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_attention_layer(spec_, dims_, rope_, 0);
      name_tensors(spec_.layers.back().attention, form_);
    }
  }

 private:
  static DecoderDims read_dims(const Json& config) {
    Json text = text_config(config);
    const std::string act = get_string_or(text, "hidden_act", "xielu");
    if (act != "xielu") fail("hidden_act is " + quoted(act) + "; this architecture is read with 'xielu' only");
    text.erase("hidden_act");
    return read_decoder_dims(text, kDefaults);
  }

  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<ApertusBlock>(dims_, cache, rope_, form_, Bias::None, loader, w);
  }

  RopeSpec rope_;
  AttentionForm form_;
};

}  // namespace

std::unique_ptr<Model> parse_apertus(const Json& config) { return std::make_unique<Apertus>(config); }

}  // namespace kvcal
