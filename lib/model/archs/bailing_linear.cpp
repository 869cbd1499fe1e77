// BailingMoeV2_5ForCausalLM (Ling-2.5, Ring-2.5): lightning attention in all but the last layer of each group, there
// latent attention; a dense layer or more, then the experts of Ling-2 (docs/model-notes.md, "Lightning attention").
//
// The reference framework has no such class: it is read as vLLM 0.33.0 and SGLang 0.5.23 have it. Both give
// layer i the decay that its publisher's code, by what ports of it quote, gives layer i + 1.
#include <cmath>

#include "base/portable_math.h"
#include "model/archs/archs.h"
#include "model/archs/bailing_keys.h"
#include "model/decoders/decoder_model.h"
#include "model/layers/decoder_block.h"
#include "model/layers/latent_attention.h"
#include "model/layers/lightning_scan.h"

namespace kvcal {
namespace {

constexpr LatentDims kLatent = {
    .kv_rank = 512, .nope = 128, .rope = 64, .value = 128, .module = "attention", .output = "dense"};

struct LightningForm {
  RopeSpec rope;  // of no dimension = none
  bool qk_norm;
  int64_t n_groups;  // parts of a row that are normed alone, behind the scan
};

/// Of ALiBi: 2^(-8 (h+1) / N), where N is a power of two; else those of the power below, then every second one of the
/// power above.
double log2_slope(int64_t head, int64_t n_heads) {
  int64_t power = 1;
  while (power * 2 <= n_heads) power *= 2;
  const double at = head < power ? static_cast<double>(head + 1) : static_cast<double>(head - power) + 0.5;
  return -8.0 * at / static_cast<double>(power);
}

/// The slopes, times 1 in the first layer and 1e-5 in the last one.
std::vector<double> log_rates(const DecoderDims& d, int64_t layer) {
  const double behind = d.n_layers > 1 ? static_cast<double>(layer) / static_cast<double>(d.n_layers - 1) : 0;
  std::vector<double> rates;
  for (int64_t h = 0; h < d.n_heads; ++h)
    rates.push_back(log2_slope(h, d.n_heads) * portable_log(2) + portable_log(1 - behind + 1e-5));
  return rates;
}

/// Keys and queries with norms and RoPE, queries times D^-1/2; behind the scan a norm by groups and a gate.
class BailingLightning final : public Mixer {
 public:
  /// `w` is positioned at the module.
  BailingLightning(const DecoderDims& dims, const LightningForm& form, int64_t layer, WeightLoader& loader,
                   WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const DecoderDims& dims);

 private:
  const DecoderDims& dims_;
  const LightningForm& form_;
  LinearGroup qkv_;        // [N·D, hidden] x3
  Linear gate_, out_;      // [N·D, hidden], [hidden, N·D]
  Owned q_norm_, k_norm_;  // [D], or absent
  Owned norm_;             // F32 [N·D]
  LightningScan scan_;
};

BailingLightning::BailingLightning(const DecoderDims& d, const LightningForm& form, int64_t layer, WeightLoader& loader,
                                   WeightBinder w)
    : dims_(d), form_(form), scan_(log_rates(d, layer), loader) {
  const int64_t n = d.n_heads * d.head_dim;
  const HostLinear all = projection(w, "query_key_value", 3 * n, d.hidden);
  const HostLinear parts[] = {all.rows(0, n), all.rows(n, n), all.rows(2 * n, n)};
  qkv_ = loader.load_linears(parts);
  gate_ = load_projection(loader, w, "g_proj", n, d.hidden);
  out_ = load_projection(loader, w, "dense", d.hidden, n);
  norm_ = loader.load_f32(w("g_norm.weight", {n}));
  if (!form.qk_norm) return;
  q_norm_ = loader.load_gain(w("query_layernorm.weight", {d.head_dim}), Gain::Plain);
  k_norm_ = loader.load_gain(w("key_layernorm.weight", {d.head_dim}), Gain::Plain);
}

Tensor BailingLightning::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&,
                                 Tail) const {
  const DecoderDims& d = dims_;
  const int64_t t = batch.n_tokens();
  const bool rotated = form_.rope.rotary_dim > 0;
  const Tensor angles = rotated ? op.rope_table(batch.positions, t, form_.rope) : Tensor{};
  const HeadsPart parts[] = {{d.head_dim, q_norm_, rotated}, {d.head_dim, k_norm_, rotated}, {d.head_dim, {}, false}};
  const std::vector<Tensor> heads = op.project_heads(h, qkv_, {parts, d.eps, angles, form_.rope});
  const Tensor q = op.scale(heads[0], static_cast<float>(1 / std::sqrt(static_cast<double>(d.head_dim))));
  const Tensor o = scan_.forward(op, q, heads[1], heads[2], h, batch, states).reshaped({t, d.n_heads * d.head_dim});
  const GatedNormSpec norm{.gain = norm_, .eps = d.eps, .act = GateActivation::Sigmoid, .n_groups = form_.n_groups};
  return op.linear(op.gated_rms_norm(o, op.linear(h, gate_), norm), out_);
}

MixerSize BailingLightning::size(const DecoderDims& d) {
  MixerSize s = lightning_size(d.n_heads, d.head_dim);
  // Projections, normed, rotated; scaled queries, the gate, both together; the angles.
  s.activations += 10 * d.n_heads * d.head_dim + d.head_dim;
  return s;
}

/// Switches whose other side no server has, or that only one of them knows.
void refuse_others(const Json& text) {
  const auto refuse = [&](const char* key, bool usual, const char* instead) {
    if (get_bool_or(text, key, usual) != usual) fail(std::string(key) + " is " + (usual ? "false" : "true") + instead);
  };
  for (const char* key : {"use_bias", "use_qkv_bias", "attention_bias"})
    refuse(key, false, "; the class is read without biases of its products");
  for (const char* key : {"linear_silu", "use_linear_silu"})
    refuse(key, false, "; the class is read without an activation of queries, keys and values");
  refuse("lightning_layerwise_decay", true, ", which SGLang alone reads: the same decay in every layer");
  refuse("rope_interleave", true, ", which SGLang alone reads");
  expect_word(text, "full_attention_type", "mla");
  const Json* given = find_member(text, "rope_parameters");
  const Json table = given && given->is_object() ? *given : Json::object();
  const std::string type = get_string_or(table, "rope_type", get_string_or(table, "type", "default"));
  if (find_member(text, "rope_scaling") || type != "default")
    fail("RoPE is scaled, which servers read differently in this class");
  if (!find_member(text, "rope_theta") && !find_member(table, "rope_theta"))
    fail("rope_theta is missing, for which servers have different defaults");
}

int64_t read_group_size(const Json& text, int64_t n_layers) {
  const int64_t size = read_size(text, "layer_group_size");
  expect_size("layer_group_size", n_layers % size == 0, size,
              "a divisor of num_hidden_layers, " + std::to_string(n_layers));
  return size;
}

LightningForm read_lightning(const Json& text, const DecoderDims& d) {
  const int64_t n_kv = get_int_or(text, "num_kv_heads_for_linear_attn", 0);
  expect_size("num_kv_heads_for_linear_attn", n_kv == 0 || n_kv == d.n_heads, n_kv,
              "as many as query heads, " + std::to_string(d.n_heads) + ", which servers take");
  const bool rotated = get_bool_or(text, "linear_rope", true);
  const int64_t n_groups = read_size(text, "group_norm_size", 1);
  expect_size("group_norm_size", d.n_heads * d.head_dim % n_groups == 0, n_groups,
              "a divisor of the heads' width, " + std::to_string(d.n_heads * d.head_dim));
  return {rotated ? read_bailing_rotation(text, d.head_dim) : RopeSpec{}, get_bool_or(text, "use_qk_norm", false),
          n_groups};
}

/// The share of a head that is rotated is one of heads of lightning attention.
LatentRope read_latent_rotation(Json text, int64_t rope_dim) {
  for (const char* key : {"partial_rotary_factor", "rotary_dim"}) text.erase(key);
  if (find_member(text, "rope_parameters")) text["rope_parameters"].erase("partial_rotary_factor");
  return read_latent_rope(text, rope_dim);
}

class BailingLinear final : public DecoderModel {
 public:
  explicit BailingLinear(const Json& config) : dims_(read_decoder_dims(config, kBailingDefaults)) {
    const Json& text = text_config(config);
    refuse_others(text);
    final_eps_ = dims_.eps;
    check_product("a state", {dims_.n_heads, dims_.head_dim, dims_.head_dim});
    check_product("a projection", {dims_.n_heads, dims_.head_dim, dims_.hidden});
    if (dims_.n_heads > dims_.hidden) fail("num_attention_heads is above hidden_size");
    lightning_ = read_lightning(text, dims_);
    latent_ = read_latent_dims(text, dims_, kLatent);
    rope_ = read_latent_rotation(text, latent_.rope);
    moe_ = read_bailing_moe(text, dims_.hidden);
    n_dense_ = get_int(text, "first_k_dense_replace");
    const int64_t group = read_group_size(text, dims_.n_layers);
    spec_ = general_spec(config, dims_);
    spec_.embedding = "word_embeddings.weight";
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      if ((i + 1) % group == 0)
        add_latent_layer(spec_, latent_, rope_, dims_.ffn);
      else
        add_recurrent_layer(spec_, LayerKind::LightningAttention, BailingLightning::size(dims_), dims_.ffn);
      if (i >= n_dense_) count_moe_layer(spec_.layers.back(), moe_, dims_.ffn);
    }
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const RmsNorms norm{loader, w, dims_.hidden, dims_.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    WeightBinder attention = w.at("attention.");
    if (cache)
      parts.mixer = std::make_unique<LatentAttention>(latent_, *cache, rope_.spec, loader, attention);
    else
      parts.mixer = std::make_unique<BailingLightning>(dims_, lightning_, layer.index, loader, attention);
    if (layer.index >= n_dense_)
      parts.ffn = SparseMoe(moe_, load_bailing_moe(moe_, loader, w));
    else
      parts.ffn = GluMlp(loader, w.at("mlp."), dims_.hidden, dims_.ffn);
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  DecoderDims dims_;
  LightningForm lightning_{};
  LatentDims latent_;
  LatentRope rope_;
  MoeDims moe_{};
  int64_t n_dense_ = 0;
};

}  // namespace

std::unique_ptr<Model> parse_bailing_linear(const Json& config) { return std::make_unique<BailingLinear>(config); }

}  // namespace kvcal
