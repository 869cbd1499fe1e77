#include "model/attention_mixer.h"

namespace kvcal {
namespace {

LinearGroup load_heads(const DecoderDims& d, Bias bias, WeightLoader& loader, WeightBinder& w) {
  const HostLinear parts[] = {projection(w, "q_proj", d.n_heads * d.head_dim, d.hidden, bias),
                              projection(w, "k_proj", d.n_kv_heads * d.head_dim, d.hidden, bias),
                              projection(w, "v_proj", d.n_kv_heads * d.head_dim, d.hidden, bias)};
  return loader.load_linears(parts);
}

Owned load_norm(const DecoderDims& d, const char* name, WeightLoader& loader, WeightBinder& w) {
  return name ? loader.load_gain(w(std::string(name) + ".weight", {d.head_dim}), Gain::Plain) : Owned{};
}

}  // namespace

AttentionMixer::AttentionMixer(const DecoderDims& d, const KvLayout& layout, const RopeSpec& rope,
                               const AttentionVariant& v, WeightLoader& loader, WeightBinder w)
    : layout_(layout),
      rope_(rope),
      eps_(d.eps),
      key_factor_(v.key_factor),
      qkv_(load_heads(d, v.qkv, loader, w)),
      wo_(load_output_projection(loader, w, v.out, d.hidden, {d.n_heads, d.head_dim}, v.o, v.to)),
      q_norm_(load_norm(d, v.q_norm, loader, w)),
      k_norm_(load_norm(d, v.k_norm, loader, w)) {}

Tensor AttentionMixer::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                               Tail tail) const {
  const KvLayout& s = layout_;
  const bool turned = rope_.rotary_dim > 0, scaled = key_factor_ != 1;
  const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), rope_) : Tensor{};
  const HeadsPart parts[] = {
      {s.head_dim_k, q_norm_, turned}, {s.head_dim_k, k_norm_, turned && !scaled}, {s.head_dim_v, {}, false}};
  auto heads = op.project_heads(h, qkv_, {parts, eps_, turns, rope_});
  if (scaled) heads[1] = op.scale(heads[1], key_factor_);
  if (scaled && turned) heads[1] = op.rope(heads[1], turns, rope_);
  const Tensor o = attend(op, s, heads, wo_, batch, states, tap, tail);
  return o ? op.linear(o, wo_) : h;
}

}  // namespace kvcal
