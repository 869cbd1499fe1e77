// Olmo2ForCausalLM and Olmo3ForCausalLM: norms behind attention and feed-forward instead of before them, RMSNorm of q
// and k over all heads together before RoPE. OLMo 3 adds windows on three layers of four; its rope scaling is meant for
// the full layers only.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 50304,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 0,
                                       .head_dim = 0,
                                       .max_positions = 2048,
                                       .eps = 1e-5};
constexpr RopeDefaults kOlmo3Rope = {500000};
constexpr int64_t kOlmo3Window = 4096, kOlmo3Period = 4;  // every fourth layer sees all

struct OlmoBlock final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps;
  LinearGroup qkv;
  Linear wo;             // [hidden, n_heads·D]
  Owned q_norm, k_norm;  // [n_heads·D], [n_kv_heads·D]
  GluMlp mlp;
  Owned after_attn, after_ffn;  // [hidden]

  OlmoBlock(const DecoderDims& d, const KvLayout& layout, const RopeSpec& r, Bias bias, WeightLoader& loader,
            WeightBinder w)
      : s(layout),
        rope(r),
        eps(d.eps),
        qkv(load_qkv(loader, w, d, bias)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, bias,
                                  OutputTo::Norm)),
        q_norm(loader.load_gain(w("self_attn.q_norm.weight", {d.n_heads * d.head_dim}), Gain::Plain)),
        k_norm(loader.load_gain(w("self_attn.k_norm.weight", {d.n_kv_heads * d.head_dim}), Gain::Plain)),
        mlp(loader, w.at("mlp."), d.hidden, d.ffn),
        after_attn(loader.load_gain(w("post_attention_layernorm.weight", {d.hidden}), Gain::Plain)),
        after_ffn(loader.load_gain(w("post_feedforward_layernorm.weight", {d.hidden}), Gain::Plain)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const int64_t n = batch.n_tokens();
    const Tensor turns = op.rope_table(batch.positions, n, rope);
    const auto rotated = [&](const Linear& w, const Tensor& gain, int64_t heads) {
      const Tensor normed = op.rms_norm(op.linear(x, w), gain, eps);  // [tokens, heads·D]
      return op.rope(normed.reshaped({n, heads, s.head_dim_k}), turns, rope);
    };
    const Tensor heads[] = {rotated(qkv.parts[0], q_norm, s.n_heads), rotated(qkv.parts[1], k_norm, s.n_kv_heads),
                            op.linear(x, qkv.parts[2]).reshaped({n, s.n_kv_heads, s.head_dim_v})};
    const Tensor o = attend(op, s, heads, wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor y = op.add(x, op.rms_norm(op.linear(o, wo), after_attn, eps));
    return op.add(y, op.rms_norm(mlp.forward(op, y), after_ffn, eps));
  }
};

class Olmo final : public AttentionModel {
 public:
  /// Layers with a window turn by `sliding`, the others by `full`.
  Olmo(const Json& config, const RopeSpec& full, const RopeSpec& sliding, const std::vector<int64_t>& windows)
      : AttentionModel(config, read_decoder_dims(config, kDefaults)), full_(full), sliding_(sliding) {
    bias_ = get_bool_or(text_config(config), "attention_bias", false) ? Bias::Present : Bias::None;
    const int64_t qk_norms = (dims_.n_heads + dims_.n_kv_heads) * dims_.head_dim;
    const int64_t parameters = plain_decoder_parameters(dims_, {bias_, bias_, Bias::None}) + qk_norms;
    for (const int64_t window : windows)
      add_attention_layer(spec_, dims_, rope_of(window), window, parameters).normed_output = true;
    for (LayerSpec& layer : spec_.layers) {
      layer.attention.norm = HeadNorm::Gain;
      layer.activations += dims_.hidden;  // two norms, no fused one
    }
  }

 private:
  const RopeSpec& rope_of(int64_t window) const { return window > 0 ? sliding_ : full_; }

  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<OlmoBlock>(dims_, cache, rope_of(cache.window), bias_, loader, w);
  }

  RopeSpec full_, sliding_;
  Bias bias_ = Bias::None;
};

std::vector<int64_t> read_olmo3_windows(const Json& text, int64_t n_layers) {
  if (find_member(text, "layer_types")) return read_windows(text, n_layers, kOlmo3Window);
  std::vector<int64_t> windows = read_windows(text, n_layers, kOlmo3Window);
  for (size_t i = kOlmo3Period - 1; i < windows.size(); i += kOlmo3Period) windows[i] = 0;
  return windows;
}

// Without rope_parameters by kind of layer the scaling at the top is the full layers'; the others have none.
Json sliding_rope_config(const Json& text) {
  if (const auto own = rope_config_of_kind(text, "sliding_attention")) return *own;
  return {{"rope_theta", get_number_or(text, "rope_theta", kOlmo3Rope.theta)}};
}

}  // namespace

std::unique_ptr<Model> parse_olmo2(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const RopeSpec rope = read_rope(text_config(config), dims.head_dim, {});
  const std::vector<int64_t> windows(static_cast<size_t>(dims.n_layers), 0);
  return std::make_unique<Olmo>(config, rope, rope, windows);
}

std::unique_ptr<Model> parse_olmo3(const Json& config) {
  const DecoderDims dims = read_decoder_dims(config, kDefaults);
  const Json& text = text_config(config);
  const RopeSpec full =
                     read_rope(rope_config_of_kind(text, "full_attention").value_or(text), dims.head_dim, kOlmo3Rope),
                 sliding = read_rope(sliding_rope_config(text), dims.head_dim, kOlmo3Rope);
  return std::make_unique<Olmo>(config, full, sliding, read_olmo3_windows(text, dims.n_layers));
}

}  // namespace kvcal
