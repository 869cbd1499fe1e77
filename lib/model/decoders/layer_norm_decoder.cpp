#include "model/decoders/layer_norm_decoder.h"

#include "model/layers/decoder_block.h"
#include "model/layers/weight_rows.h"

namespace kvcal {
namespace {

class NormedAttention final : public Mixer {
 public:
  NormedAttention(const KvLayout& layout, const RopeSpec& rope, NormedWeights weights)
      : layout_(layout), rope_(rope), w_(std::move(weights)) {}

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override {
    const Tensor o = attend(op, layout_, project(op, h, batch), w_.wo, batch, states, tap, tail);
    return o ? op.linear(o, w_.wo) : h;
  }

 private:
  /// h [tokens, hidden], normed -> q, k, v [tokens, heads, D].
  std::vector<Tensor> project(Ops& op, const Tensor& h, const Batch& batch) const {
    const KvLayout& s = layout_;
    const bool turned = s.rotary_dim > 0, at_once = !w_.q_norm && w_.clip == 0;
    const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), rope_) : Tensor{};
    const HeadsPart parts[] = {
        {s.head_dim_k, {}, turned && at_once}, {s.head_dim_k, {}, turned && at_once}, {s.head_dim_v, {}, false}};
    std::vector<Tensor> heads = op.project_heads(h, w_.qkv, {parts, w_.attn_norm.eps, turns, rope_});
    if (at_once) return heads;
    if (w_.clip > 0)
      for (Tensor& t : heads) t = op.clamp(t, -w_.clip, w_.clip);
    if (w_.q_norm) {
      heads[0] = w_.q_norm->forward(op, heads[0]);
      heads[1] = w_.k_norm->forward(op, heads[1]);
    }
    if (turned)
      for (size_t i : {0, 1}) heads[i] = op.rope(heads[i], turns, rope_);
    return heads;
  }

  const KvLayout& layout_;
  const RopeSpec& rope_;
  NormedWeights w_;
};

}  // namespace

std::unique_ptr<Block> make_normed_block(const KvLayout& layout, const RopeSpec& rope, NormedWeights weights,
                                         bool side_by_side) {
  DecoderBlockParts parts{.before_mixer = weights.attn_norm, .before_ffn = weights.ffn_norm};
  parts.ffn = GluMlp(weights.mlp);
  parts.mixer = std::make_unique<NormedAttention>(layout, rope, std::move(weights));
  parts.side_by_side = side_by_side;
  return std::make_unique<DecoderBlock>(std::move(parts));
}

LayerNormModel::LayerNormModel(const Json& config, const DecoderDims& dims) : AttentionModel(config, dims) {
  spec_.table_parameters = dims.hidden;  // the last norm's bias
}

std::unique_ptr<Head> LayerNormModel::load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const {
  const std::string norm = spec_.final_norm.substr(0, spec_.final_norm.rfind('.'));
  return load_output_head(spec_, load_norm(loader, weights, norm), logits_, loader, weights, head);
}

Norm LayerNormModel::load_norm(WeightLoader& loader, WeightBinder& w, const std::string& name) const {
  return load_layer_norm(loader, w, name, dims_.hidden, dims_.eps);
}

KvLayout& LayerNormModel::add_layer(const RopeSpec& rope, const std::string& module) {
  KvLayout& cache = add_attention_layer(spec_, dims_, rope, 0);
  cache.name = spec_.names_of(cache.layer) + module;
  spec_.layers.back().attention.module = cache.name + ".";
  return cache;
}

SquaredReluDecoder::SquaredReluDecoder(const Json& config, const DecoderDefaults& defaults, const RopeDefaults& rope,
                                       Bias bias)
    : LayerNormModel(config, read_decoder_dims(config, defaults)) {
  const Json& text = text_config(config);
  const auto read_bias = [&](const char* key) {
    return get_bool_or(text, key, bias == Bias::Present) ? Bias::Present : Bias::None;
  };
  rope_ = read_rope(text, dims_.head_dim, rope);
  attention_bias_ = read_bias("attention_bias");
  mlp_bias_ = read_bias("mlp_bias");
  for (int64_t i = 0; i < dims_.n_layers; ++i) add_layer(rope_, "self_attn");
}

std::unique_ptr<Block> SquaredReluDecoder::load_layer(const KvLayout& cache, WeightLoader& loader,
                                                      WeightBinder w) const {
  const DecoderDims& d = dims_;
  NormedWeights weights = {
      load_norm(loader, w, "input_layernorm"), load_norm(loader, w, "post_attention_layernorm"),
      load_qkv(loader, w, d, attention_bias_),
      load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, attention_bias_),
      loader.load_mlp(projection(w, "mlp.up_proj", d.ffn, d.hidden, mlp_bias_),
                      projection(w, "mlp.down_proj", d.hidden, d.ffn, mlp_bias_), Activation::Relu2)};
  return make_normed_block(cache, rope_, std::move(weights));
}

LinearGroup load_grouped_qkv(WeightLoader& loader, WeightBinder& w, const std::string& name, const DecoderDims& d,
                             Bias bias) {
  const int64_t queries = d.n_heads / d.n_kv_heads, width = d.head_dim;
  const HostLinear all = projection(w, name, (d.n_heads + 2 * d.n_kv_heads) * width, d.hidden, bias);
  std::vector<Storage> memory;
  std::vector<HostLinear> parts;
  const auto part = [&](int64_t from, int64_t n) {
    const RowsOfGroups rows{d.n_kv_heads, (queries + 2) * width, from * width, n * width};
    const Tensor weight = memory.emplace_back(select_rows(all.weight, rows)).tensor();
    parts.push_back(
        {weight, all.bias ? memory.emplace_back(select_rows(all.bias, rows)).tensor() : Tensor{}, all.input});
  };
  part(0, queries);
  part(queries, 1);
  part(queries + 1, 1);
  return loader.load_linears(parts);
}

}  // namespace kvcal
