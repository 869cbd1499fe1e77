#include "model/layers/self_attention.h"

namespace kvcal {
namespace {

std::string below(const AttentionForm& form, const char* name) { return std::string(form.module) + "." + name; }

LinearGroup load_projections(WeightLoader& loader, WeightBinder& w, const DecoderDims& d, const AttentionForm& form) {
  return form.fused ? load_fused_qkv(loader, w, below(form, form.fused), d, form.qkv)
                    : load_qkv(loader, w, d, form.qkv, form.module);
}

}  // namespace

SelfAttention::SelfAttention(const DecoderDims& d, const KvLayout& layout, const RopeSpec& rope,
                             const AttentionForm& form, WeightLoader& loader, WeightBinder& w)
    : layout_(layout),
      rope_(rope),
      eps_(d.eps),
      norm_(form.norm),
      clip_(form.clip),
      key_factor_(form.key_factor),
      cap_(form.cap),
      qkv_(load_projections(loader, w, d, form)),
      wo_(load_output_projection(loader, w, below(form, form.output), d.hidden, {d.n_heads, d.head_dim}, form.o,
                                 form.to)) {
  const auto load_norm = [&](const char* name, int64_t heads) {
    const int64_t n = form.norm == QkNorm::WholeRow ? heads * d.head_dim : d.head_dim;
    return loader.load_gain(w(below(form, name) + ".weight", {n}), form.gain);
  };
  if (form.norm != QkNorm::None) {
    q_norm_ = load_norm(form.q_norm, d.n_heads);
    k_norm_ = load_norm(form.k_norm, d.n_kv_heads);
  }
  if (form.sinks) sinks_ = loader.load_f32(w("self_attn.sinks", {d.n_heads}));
}

std::vector<Tensor> SelfAttention::project_rows(Ops& op, const Tensor& h, const Tensor& turns) const {
  const int64_t dim = layout_.head_dim_k;
  const auto clipped = [&](const Tensor& t) { return clip_ > 0 ? op.clamp(t, -clip_, clip_) : t; };
  const auto split = [&](const Tensor& row) { return row.reshaped({row.dim(0), row.dim(1) / dim, dim}); };
  const auto normed = [&](size_t part, const Tensor& gain) {
    const Tensor heads = split(clipped(op.rms_norm(op.linear(h, qkv_.parts[part]), gain, eps_)));
    return turns ? op.rope(heads, turns, rope_) : heads;
  };
  const Tensor v = split(clipped(op.linear(h, qkv_.parts[2])));
  return {normed(0, q_norm_), normed(1, k_norm_), v};
}

std::vector<Tensor> SelfAttention::project(Ops& op, const Tensor& h, const Batch& batch) const {
  const int64_t dim = layout_.head_dim_k;
  const bool turned = layout_.rotary_dim > 0, before = norm_ == QkNorm::PerHead, scaled = key_factor_ != 1;
  const Tensor turns = turned ? op.rope_table(batch.positions, batch.n_tokens(), rope_) : Tensor{};
  if (norm_ == QkNorm::WholeRow) return project_rows(op, h, turns);
  const Tensor none;
  const HeadsPart parts[] = {{dim, before ? q_norm_ : none, turned},
                             {dim, before ? k_norm_ : none, turned && !scaled},
                             {layout_.head_dim_v, none, false}};
  std::vector<Tensor> heads = op.project_heads(h, qkv_, {parts, eps_, turns, rope_});
  if (scaled) heads[1] = op.scale(heads[1], key_factor_);
  if (scaled && turned) heads[1] = op.rope(heads[1], turns, rope_);
  if (norm_ == QkNorm::PerHeadAfterRope) {
    heads[0] = op.rms_norm(heads[0], q_norm_, eps_);
    heads[1] = op.rms_norm(heads[1], k_norm_, eps_);
  }
  if (growth_.beta > 0) heads[0] = grown(op, heads[0], growth_, batch);
  return heads;
}

Tensor SelfAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                              Tail tail) const {
  const std::vector<Tensor> heads = project(op, h, batch);
  const KeyChoice choice = picker_ ? picker_->choose(op, h, batch, states, tap) : KeyChoice{};
  AttentionSpec spec{.softcap = cap_, .sinks = sinks_, .last_keys = batch.last_keys};
  choice.apply_to(spec);
  const Tensor o = attend(op, layout_, heads, wo_, batch, states, tap, tail, spec);
  return o ? op.linear(o, wo_) : h;
}

void name_tensors(AttentionTensors& tensors, const AttentionForm& form) {
  tensors.output = form.output;
  tensors.fused = form.fused != nullptr;
  if (form.fused) tensors.query = form.fused;
  if (form.clip > 0) tensors.obstacle = "its queries, keys and values are clipped";
  if (form.norm == QkNorm::None) return;
  tensors.norm = form.norm == QkNorm::PerHeadAfterRope ? HeadNorm::GainBehindRope
                 : form.gain == Gain::OnePlus          ? HeadNorm::OnePlusGain
                                                       : HeadNorm::Gain;
  tensors.query_norm = form.q_norm;
  tensors.key_norm = form.k_norm;
}

}  // namespace kvcal
