// MiniMaxForCausalLM (MiniMax-Text-01): lightning attention, which is a state space whose decay is a constant of head
// and layer, beside softmax attention; experts in every layer; residuals are taken behind the norms, with factors. The
// checkpoint's decay tables are not needed. Softmax layers rotate whole heads, as the reference does.
#include "base/portable_math.h"
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/lightning_scan.h"
#include "model/layers/multipliers.h"
#include "model/layers/self_attention.h"
#include "model/layers/weight_rows.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 32000,
                                       .hidden = 4096,
                                       .ffn = 14336,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 8,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {1000000, 1};
constexpr MoeNames kNames = {.gate = "w1", .up = "w3", .down = "w2"};
constexpr float kInnerEpsilon = 1e-6f;  // of the norm behind lightning attention: of the reference, no config key

class LightningAttention final : public Mixer {
 public:
  LightningAttention(const DecoderDims& dims, int64_t layer, WeightLoader& loader, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const DecoderDims& dims);

 private:
  int64_t n_heads_, head_dim_;
  Linear q_, k_, v_, gate_, out_;  // [N·D, hidden] x4, [hidden, N·D]
  Owned norm_;                     // [N·D]
  LightningScan scan_;
};

/// The slope of head h is 2^(-8 (h+1) / N), times the layer's share; their logarithms.
std::vector<double> log_slopes(const DecoderDims& d, int64_t layer) {
  const double share = 1 - static_cast<double>(layer) / (static_cast<double>(d.n_layers - 1) + 1e-5) + 1e-5;
  std::vector<double> slopes;
  for (int64_t h = 0; h < d.n_heads; ++h) {
    const double log2_slope = -8.0 * static_cast<double>(h + 1) / static_cast<double>(d.n_heads);
    slopes.push_back(log2_slope * portable_log(2) + portable_log(share));
  }
  return slopes;
}

LightningAttention::LightningAttention(const DecoderDims& d, int64_t layer, WeightLoader& loader, WeightBinder w)
    : n_heads_(d.n_heads),
      head_dim_(d.head_dim),
      gate_(load_projection(loader, w, "output_gate", d.n_heads * d.head_dim, d.hidden)),
      out_(load_projection(loader, w, "out_proj", d.hidden, d.n_heads * d.head_dim)),
      norm_(loader.load_gain(w("norm.weight", {d.n_heads * d.head_dim}), Gain::Plain)),
      scan_(log_slopes(d, layer), loader) {
  const HostLinear qkv = projection(w, "qkv_proj", 3 * d.n_heads * d.head_dim, d.hidden);  // per head q, k, v
  Linear* parts[] = {&q_, &k_, &v_};
  for (int64_t i = 0; i < 3; ++i) {
    const Storage rows = select_rows(qkv.weight, RowsOfGroups{d.n_heads, 3 * d.head_dim, i * d.head_dim, d.head_dim});
    *parts[i] = loader.load_linear(rows.tensor(), {}, qkv.input);
  }
}

Tensor LightningAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&,
                                   Tail) const {
  const int64_t t = batch.n_tokens();
  const auto heads = [&](const Linear& w) {
    return op.activate(op.linear(h, w), Activation::Silu).reshaped({t, n_heads_, head_dim_});
  };
  const Tensor o = scan_.forward(op, heads(q_), heads(k_), heads(v_), h, batch, states);
  const Tensor normed = op.rms_norm(o.reshaped({t, n_heads_ * head_dim_}), norm_, kInnerEpsilon);
  return op.linear(op.sigmoid_mul(normed, op.linear(h, gate_)), out_);
}

MixerSize LightningAttention::size(const DecoderDims& d) {
  MixerSize s = lightning_size(d.n_heads, d.head_dim);
  s.activations += 9 * d.n_heads * d.head_dim;  // projections, activated; normed, gated
  return s;
}

struct Factors {
  float alpha = 1, beta = 1;  // of the residual and of the branch
};

struct MiniMaxBlock final : Block {
  float eps;
  Owned norm, ffn_norm;  // [hidden]
  Factors mixed, fed;
  std::unique_ptr<Mixer> mixer;
  SparseMoe moe;

  MiniMaxBlock(const DecoderDims& d, Factors m, Factors f, std::unique_ptr<Mixer> mix, SparseMoe experts,
               WeightLoader& loader, WeightBinder& w)
      : eps(d.eps),
        norm(loader.load_gain(w("input_layernorm.weight", {d.hidden}), Gain::Plain)),
        ffn_norm(loader.load_gain(w("post_attention_layernorm.weight", {d.hidden}), Gain::Plain)),
        mixed(m),
        fed(f),
        mixer(std::move(mix)),
        moe(std::move(experts)) {}

  static Tensor sum(Ops& op, const Tensor& x, const Tensor& y, const Factors& f) {
    return op.add(scaled(op, x, f.alpha), scaled(op, y, f.beta));
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor h = op.rms_norm(x, norm, eps);
    const Tensor y = mixer->forward(op, h, batch, states, tap, tail);
    if (tail == Tail::Skip) return x;
    const Tensor n = op.rms_norm(sum(op, h, y, mixed), ffn_norm, eps);
    return sum(op, n, moe.forward(op, n), fed);
  }
};

Factors read_factors(const Json& config, const std::string& branch) {
  return {read_factor(config, (branch + "_alpha_factor").c_str()),
          read_factor(config, (branch + "_beta_factor").c_str())};
}

MoeDims read_moe(const Json& config, const DecoderDims& dims) {
  MoeDims d{};
  d.hidden = dims.hidden;
  d.ffn = dims.ffn;
  d.n_experts = read_size(config, "num_local_experts", 8);
  d.routing.k = get_int_or(config, "num_experts_per_tok", 2);
  d.routing.renormalize = true;
  check_moe_dims(d);
  return d;
}

// MiniMax-Text-01 was trained with the first rotary_dim channels of a head turned, as vLLM's class did until it was
// removed in 0.23; the reference framework's class, which SGLang falls back to, ignores the key and turns all of them.
// The keys differ, and no reference computes the first.
void check_whole_heads_turn(const Json& config, const DecoderDims& dims, const RopeSpec& rope) {
  const int64_t rotary = get_int_or(config, "rotary_dim", rope.rotary_dim);
  for (const int64_t turned : {rotary, rope.rotary_dim})
    if (turned != dims.head_dim)
      fail("rotary_dim is " + std::to_string(turned) + " of head_dim " + std::to_string(dims.head_dim) +
           ": this part of a head turned in vLLM up to 0.22, all of it does in the reference framework; only configs "
           "that rotate whole heads are read");
}

class MiniMax final : public DecoderModel {
 public:
  explicit MiniMax(const Json& config)
      : dims_(read_decoder_dims(config, kDefaults)),
        moe_(read_moe(config, dims_)),
        full_(read_factors(config, "full_attn")),
        linear_(read_factors(config, "linear_attn")),
        fed_(read_factors(config, "mlp")) {
    final_eps_ = dims_.eps;
    rope_ = read_rope(config, dims_.head_dim, kRopeDefaults);
    check_whole_heads_turn(config, dims_, rope_);
    if (dims_.n_heads > dims_.hidden) fail("num_attention_heads is above hidden_size");
    check_product("a state", {dims_.n_heads, dims_.head_dim, dims_.head_dim});
    check_product("a projection", {dims_.n_heads, dims_.head_dim, dims_.hidden});
    const int64_t window = find_member(config, "sliding_window") ? read_size(config, "sliding_window") : 0;
    auto words = read_mixer_words(config, {"layer_types"}, {"full_attention", "linear_attention"});
    if (!words) {
      words.emplace();
      for (int64_t i = 0; i < dims_.n_layers; ++i) words->push_back(i % 2 == 0 ? "full_attention" : "linear_attention");
    }
    if (static_cast<int64_t>(words->size()) != dims_.n_layers)
      fail("layer_types has " + std::to_string(words->size()) + " entries, expected " + std::to_string(dims_.n_layers) +
           " (num_hidden_layers)");
    spec_ = general_spec(config, dims_);
    for (const std::string& word : *words) {
      if (word == "full_attention") {
        add_attention_layer(spec_, dims_, rope_, window);
      } else {
        add_recurrent_layer(spec_, LayerKind::LightningAttention, LightningAttention::size(dims_), dims_.ffn);
      }
      count_moe_layer(spec_.layers.back(), moe_, dims_.ffn);
      spec_.layers.back().activations += 4 * dims_.hidden;
    }
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    std::unique_ptr<Mixer> mixer;
    if (cache) {
      // Added to the normed input, which is not the stream that the layer reads.
      const AttentionForm plain{.to = OutputTo::Norm};
      mixer = std::make_unique<SelfAttention>(dims_, *cache, rope_, plain, loader, w);
    } else {
      mixer = std::make_unique<LightningAttention>(dims_, layer.index, loader, w.at("self_attn."));
      for (const char* table : {"slope_rate", "query_decay", "key_decay", "diagonal_decay"})
        if (const std::string name = std::string("self_attn.") + table; w.has(name)) w.claim(name);
    }
    return std::make_unique<MiniMaxBlock>(dims_, cache ? full_ : linear_, fed_, std::move(mixer),
                                          SparseMoe(moe_, load_moe(moe_, kNames, loader, w.at(moe_module(w, kNames)))),
                                          loader, w);
  }

  DecoderDims dims_;
  RopeSpec rope_;
  MoeDims moe_;
  Factors full_, linear_, fed_;
};

}  // namespace

std::unique_ptr<Model> parse_minimax(const Json& config) { return std::make_unique<MiniMax>(config); }

}  // namespace kvcal
