// ApertusForCausalLM: RMSNorm over each head of q and k before RoPE, and a feed-forward of two projections with xIELU
// between them, whose parameters each layer has learned for itself.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 131072, .hidden = 4096, .ffn = 14336, .n_layers = 32, .n_heads = 32, .max_positions = 65536, .eps = 1e-5};
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

struct XieluMlp {
  Linear up, down;                    // [ffn, hidden], [hidden, ffn]
  Owned alpha_p, alpha_n, beta, eps;  // [1]

  Tensor forward(Ops& op, const Tensor& x) const {
    return op.linear(op.xielu(op.linear(x, up), {alpha_p, alpha_n, beta, eps}), down);
  }
};

class Apertus final : public AttentionModel {
 public:
  explicit Apertus(const Json& config) : AttentionModel(config, read_dims(config)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    const Bias bias = read_bias(text, "attention_bias");
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
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("attention_layernorm"), .before_ffn = norm("feedforward_layernorm")};
    parts.mixer = std::make_unique<SelfAttention>(dims_, cache, rope_, form_, loader, w);
    parts.ffn = XieluMlp{load_projection(loader, w, "mlp.up_proj", dims_.ffn, dims_.hidden),
                         load_projection(loader, w, "mlp.down_proj", dims_.hidden, dims_.ffn),
                         load_number(loader, w, "alpha_p"),
                         load_number(loader, w, "alpha_n"),
                         load_number(loader, w, "beta", &kBeta),
                         load_number(loader, w, "eps", &kEps)};
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  RopeSpec rope_;
  AttentionForm form_;
};

}  // namespace

std::unique_ptr<Model> parse_apertus(const Json& config) { return std::make_unique<Apertus>(config); }

}  // namespace kvcal
