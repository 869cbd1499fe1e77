// Takes tensors of host memory where a backend wants its own: uploads them first. Results stay where they are.
#pragma once

#include <memory>

#include "harness/forwarding_ops.h"

namespace kvcal {

class UploadingOps : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;

 protected:
  Tensor do_linear(const Tensor& x, const Linear& w) override { return ForwardingOps::do_linear(up(x), w); }
  Tensor do_linear_f32(const Tensor& x, const Linear& w) override { return ForwardingOps::do_linear_f32(up(x), w); }
  Tensor do_round_input(const Tensor& x, const InputRounding& r) override {
    return ForwardingOps::do_round_input(up(x), r);
  }
  Tensor do_rms_norm(const Tensor& x, const Tensor& g, float eps) override {
    return ForwardingOps::do_rms_norm(up(x), up(g), eps);
  }
  Tensor do_add(const Tensor& x, const Tensor& y) override { return ForwardingOps::do_add(up(x), up(y)); }
  Tensor do_linear_per_head(const Tensor& x, std::span<const Linear> w) override {
    return ForwardingOps::do_linear_per_head(up(x), w);
  }
  Tensor do_layer_norm(const Tensor& x, const Tensor& g, const Tensor& b, float eps) override {
    return ForwardingOps::do_layer_norm(up(x), up(g), up(b), eps);
  }
  Tensor do_scale(const Tensor& x, float factor) override { return ForwardingOps::do_scale(up(x), factor); }
  Tensor do_mul(const Tensor& x, const Tensor& y) override { return ForwardingOps::do_mul(up(x), up(y)); }
  Tensor do_activate(const Tensor& x, Activation act) override { return ForwardingOps::do_activate(up(x), act); }
  Tensor do_softcap(const Tensor& x, float c) override { return ForwardingOps::do_softcap(up(x), c); }
  Tensor do_join(const Tensor& a, const Tensor& b) override { return ForwardingOps::do_join(up(a), up(b)); }
  Tensor do_glu(const Tensor& g, const Tensor& u, Activation act) override {
    return ForwardingOps::do_glu(up(g), up(u), act);
  }
  Tensor do_sigmoid_mul(const Tensor& x, const Tensor& g) override {
    return ForwardingOps::do_sigmoid_mul(up(x), up(g));
  }
  Tensor do_columns(const Tensor& x, int64_t from, int64_t n) override {
    return ForwardingOps::do_columns(up(x), from, n);
  }
  Tensor do_take_rows(const Tensor& x, std::span<const int64_t> rows) override {
    return ForwardingOps::do_take_rows(up(x), rows);
  }
  Tensor do_rope(const Tensor& x, const Tensor& t, const RopeSpec& s) override {
    return ForwardingOps::do_rope(up(x), up(t), s);
  }
  Tensor do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                      std::span<KvRows* const> rows, const AttentionSpec& spec) override {
    return ForwardingOps::do_attention(up(q), up(k), up(v), spans, rows, up(spec));
  }
  Tensor do_attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                        const AttentionSpec& spec) override {
    return ForwardingOps::do_attend_kept(up(q), spans, rows, up(spec));
  }
  void do_keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans,
                    std::span<KvRows* const> rows) override {
    ForwardingOps::do_keep_rows(up(k), up(v), spans, rows);
  }
  AttentionSample do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                      std::span<const KvRows* const> rows, const AttentionSpec& spec,
                                      const SampleRequest& request) override {
    SampleRequest there = request;
    there.column_norms = up(request.column_norms);
    return ForwardingOps::do_sample_attention(up(q), up(k), up(v), spans, rows, up(spec), there);
  }
  Tensor do_causal_conv(const Tensor& x, const ConvWeights& w, std::span<const Span> spans,
                        std::span<ConvState* const> states) override {
    return ForwardingOps::do_causal_conv(up(x), {up(w.w), up(w.bias), w.silu}, spans, states);
  }
  Tensor do_l2_norm(const Tensor& x, float eps) override { return ForwardingOps::do_l2_norm(up(x), eps); }
  DeltaGates do_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    return ForwardingOps::do_delta_gates(up(a), up(b), up(l), up(d));
  }
  DeltaGates do_channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    return ForwardingOps::do_channel_delta_gates(up(a), up(b), up(l), up(d));
  }
  Tensor do_gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                             std::span<const Span> spans, std::span<DeltaState* const> states) override {
    return ForwardingOps::do_gated_delta_rule(up(q), up(k), up(v), {up(gates.g), up(gates.beta)}, spans, states);
  }
  Tensor do_ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                std::span<SsmState* const> states) override {
    return ForwardingOps::do_ssd(up(in), up(w), spans, states);
  }
  Tensor do_selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                           std::span<SsmState* const> states) override {
    return ForwardingOps::do_selective_scan(up(in), up(w), spans, states);
  }
  Tensor do_gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec) override {
    GatedNormSpec own = spec;
    own.gain = up(spec.gain);
    return ForwardingOps::do_gated_rms_norm(up(x), up(z), own);
  }
  Routing do_route(const Tensor& l, const RoutingSpec& spec) override {
    RoutingSpec own = spec;
    own.bias = up(spec.bias);
    return ForwardingOps::do_route(up(l), own);
  }
  Tensor do_experts(const Tensor& x, const Routing& r, std::span<const GluWeights> e) override {
    return ForwardingOps::do_experts(up(x), {up(r.experts), up(r.weights)}, e);
  }
  SumAndNorm do_add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& g, float eps) override {
    return ForwardingOps::do_add_rms_norm(up(x), up(y), up(g), eps);
  }
  Tensor do_glu_mlp(const Tensor& x, const GluWeights& w) override { return ForwardingOps::do_glu_mlp(up(x), w); }
  std::vector<Tensor> do_project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& s) override {
    return ForwardingOps::do_project_heads(up(x), w, s);
  }

 private:
  SsmInputs up(const SsmInputs& in) { return {up(in.x), up(in.dt), up(in.b), up(in.c)}; }
  SsmWeights up(const SsmWeights& w) { return {up(w.a_log), up(w.dt_bias), up(w.d)}; }
  AttentionSpec up(const AttentionSpec& spec) {
    AttentionSpec own = spec;
    own.sinks = up(spec.sinks);
    return own;
  }
  Tensor up(const Tensor& t) { return t && t.device == Device::Host ? upload(t) : t; }
};

/// The same, with the backend it passes calls on to.
class OwningUploadingOps final : public UploadingOps {
 public:
  explicit OwningUploadingOps(std::unique_ptr<Ops> inner) : UploadingOps(*inner), owned_(std::move(inner)) {}

 private:
  std::unique_ptr<Ops> owned_;
};

}  // namespace kvcal
