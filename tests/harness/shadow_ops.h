// Runs every op on two backends with the same inputs and compares: any architecture on any prompt becomes a test of
// every op it uses, which names the first that disagrees. The reference computes on the host, and its results go on.
#pragma once

#include <gtest/gtest.h>

#include <unordered_map>
#include <vector>

#include "harness/compare.h"
#include "harness/forwarding_ops.h"
#include "harness/tolerances.h"

namespace kvcal {

class ShadowOps final : public ForwardingOps {
 public:
  ShadowOps(Ops& reference, Ops& subject) : ForwardingOps(reference), subject_(subject) {}

  void end_batch() override {
    inner_.end_batch();
    subject_.end_batch();
  }

  int64_t compared = 0;  // results

 protected:
  Linear do_load_linear(const Tensor& w, const Tensor& b) override {
    return pair(inner_.load_linear(w, b), subject_.load_linear(w, b));
  }
  Owned do_load_vector(const Tensor& w, DType as, float plus) override {
    const auto load = [&](Ops& op) {
      if (as == DType::F32 && plus == 0) return op.load_f32(w);
      return op.load_gain(w, plus == 0 ? Gain::Plain : Gain::OnePlus);
    };
    const Owned o = load(inner_);
    vectors_[o.view.data] = load(subject_);
    return o;
  }
  Tensor do_embed(const Tensor& t, std::span<const int32_t> ids) override {
    return same("embed", inner_.embed(t, ids), subject_.embed(t, ids));
  }
  Tensor do_linear(const Tensor& x, const Linear& w) override {
    return same("linear", inner_.linear(x, both(w).reference), subject_.linear(up(x), both(w).subject));
  }
  Tensor do_rms_norm(const Tensor& x, const Tensor& g, float eps) override {
    return same("rms_norm", inner_.rms_norm(x, g, eps), subject_.rms_norm(up(x), vector(g), eps));
  }
  Tensor do_add(const Tensor& x, const Tensor& y) override {
    return same("add", inner_.add(x, y), subject_.add(up(x), up(y)));
  }
  Tensor do_silu_mul(const Tensor& g, const Tensor& u) override {
    return same("silu_mul", inner_.silu_mul(g, u), subject_.silu_mul(up(g), up(u)));
  }
  Tensor do_sigmoid_mul(const Tensor& x, const Tensor& g) override {
    return same("sigmoid_mul", inner_.sigmoid_mul(x, g), subject_.sigmoid_mul(up(x), up(g)));
  }
  Tensor do_columns(const Tensor& x, int64_t from, int64_t n) override {
    return same("columns", inner_.columns(x, from, n), subject_.columns(up(x), from, n));
  }
  Tensor do_take_rows(const Tensor& x, std::span<const int64_t> rows) override {
    return same("take_rows", inner_.take_rows(x, rows), subject_.take_rows(up(x), rows));
  }
  Tensor do_rope_table(std::span<const int32_t> p, int64_t n, const RopeSpec& s) override {
    return same("rope_table", inner_.rope_table(p, n, s), subject_.rope_table(p, n, s));
  }
  Tensor do_rope(const Tensor& x, const Tensor& t, const RopeSpec& s) override {
    return same("rope", inner_.rope(x, t, s), subject_.rope(up(x), up(t), s));
  }
  Tensor do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                      std::span<KvRows* const> rows, const AttentionSpec& spec) override {
    const Copies<KvRows> copies(rows, [&](const KvRows& r) {
      return KvRows{kept(r.key), kept(r.value), r.n_tokens, r.max_tokens};
    });
    const Tensor y = subject_.attention(up(q), up(k), up(v), spans, copies.pointers, spec);
    const Tensor reference = inner_.attention(q, k, v, spans, rows, spec);
    for (size_t i = 0; i < rows.size(); ++i)
      if (rows[i]) {
        EXPECT_EQ(rows[i]->n_tokens, copies.states[i].n_tokens);
        same("kept keys", rows[i]->key.view.rows(0, rows[i]->n_tokens),
             copies.states[i].key.view.rows(0, rows[i]->n_tokens));
        same("kept values", rows[i]->value.view.rows(0, rows[i]->n_tokens),
             copies.states[i].value.view.rows(0, rows[i]->n_tokens));
      }
    return same("attention", reference, y);
  }
  Tensor do_causal_conv_silu(const Tensor& x, const Tensor& w, std::span<const Span> spans,
                             std::span<ConvState* const> states) override {
    const Copies<ConvState> copies(states, [&](const ConvState& s) { return ConvState{kept(s.window)}; });
    const Tensor y = subject_.causal_conv_silu(up(x), vector(w), spans, copies.pointers);
    const Tensor reference = inner_.causal_conv_silu(x, w, spans, states);
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i]) same("convolution window", states[i]->window, copies.states[i].window);
    return same("causal_conv_silu", reference, y);
  }
  Tensor do_l2_norm(const Tensor& x, float eps) override {
    return same("l2_norm", inner_.l2_norm(x, eps), subject_.l2_norm(up(x), eps));
  }
  DeltaGates do_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    const DeltaGates reference = inner_.delta_gates(a, b, l, d),
                     gates = subject_.delta_gates(up(a), up(b), vector(l), vector(d));
    return {same("delta_gates g", reference.g, gates.g), same("delta_gates beta", reference.beta, gates.beta)};
  }
  Tensor do_gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                             std::span<const Span> spans, std::span<DeltaState* const> states) override {
    const Copies<DeltaState> copies(states, [&](const DeltaState& s) { return DeltaState{kept(s.s)}; });
    const Tensor y =
        subject_.gated_delta_rule(up(q), up(k), up(v), {up(gates.g), up(gates.beta)}, spans, copies.pointers);
    const Tensor reference = inner_.gated_delta_rule(q, k, v, gates, spans, states);
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i]) same("delta state", states[i]->s, copies.states[i].s);
    return same("gated_delta_rule", reference, y);
  }
  Tensor do_gated_rms_norm(const Tensor& x, const Tensor& z, const Tensor& g, float eps, GateActivation act) override {
    return same("gated_rms_norm", inner_.gated_rms_norm(x, z, g, eps, act),
                subject_.gated_rms_norm(up(x), up(z), vector(g), eps, act));
  }
  Routing do_route_softmax(const Tensor& l, int64_t k, bool renormalize) override {
    const Routing reference = inner_.route_softmax(l, k, renormalize),
                  routing = subject_.route_softmax(up(l), k, renormalize);
    const Storage experts = down(routing.experts);
    for (int64_t i = 0; i < reference.experts.elements(); ++i)
      EXPECT_EQ(experts.tensor().as<int32_t>()[i], reference.experts.as<int32_t>()[i]) << "route_softmax, choice " << i;
    same("route_softmax", reference.weights, routing.weights);
    return reference;
  }
  Tensor do_experts_swiglu(const Tensor& x, const Routing& r, std::span<const SwigluWeights> e) override {
    std::vector<SwigluWeights> reference, subject;
    for (const SwigluWeights& w : e) {
      reference.push_back(of(w, &Both::reference));
      subject.push_back(of(w, &Both::subject));
    }
    return same("experts_swiglu", inner_.experts_swiglu(x, r, reference),
                subject_.experts_swiglu(up(x), {up(r.experts), up(r.weights)}, subject));
  }
  LinearGroup do_load_linears(std::span<const HostLinear> w) override {
    const LinearGroup reference = inner_.load_linears(w), subject = subject_.load_linears(w);
    LinearGroup group;
    for (size_t i = 0; i < w.size(); ++i) group.parts.push_back(pair(reference.parts[i], subject.parts[i]));
    group.all = pair(reference.all, subject.all);
    return group;
  }
  SumAndNorm do_add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& g, float eps) override {
    const SumAndNorm reference = inner_.add_rms_norm(x, y, g, eps),
                     result = subject_.add_rms_norm(up(x), up(y), vector(g), eps);
    return {same("add_rms_norm sum", reference.sum, result.sum),
            same("add_rms_norm normed", reference.normed, result.normed)};
  }
  Tensor do_swiglu(const Tensor& x, const SwigluWeights& w) override {
    return same("swiglu", inner_.swiglu(x, of(w, &Both::reference)), subject_.swiglu(up(x), of(w, &Both::subject)));
  }
  std::vector<Tensor> do_project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& s) override {
    LinearGroup reference{{}, both(w.all).reference}, subject{{}, both(w.all).subject};
    for (const Linear& l : w.parts) {
      reference.parts.push_back(both(l).reference);
      subject.parts.push_back(both(l).subject);
    }
    std::vector<HeadsPart> parts(s.parts.begin(), s.parts.end());
    for (HeadsPart& p : parts)
      if (p.gain) p.gain = vector(p.gain);
    const std::vector<Tensor> expected = inner_.project_heads(x, reference, s),
                              heads = subject_.project_heads(up(x), subject, {parts, s.eps, up(s.table), s.rope});
    for (size_t i = 0; i < expected.size(); ++i) same("project_heads", expected[i], heads[i]);
    return expected;
  }

 private:
  struct Both {
    Linear reference, subject;
  };
  static Linear pair(const Linear& reference, const Linear& subject) {
    return {subject.in, subject.out, std::make_shared<const Both>(Both{reference, subject}), reference.bias};
  }
  static const Both& both(const Linear& l) { return *static_cast<const Both*>(l.packed.get()); }
  static SwigluWeights of(const SwigluWeights& w, Linear Both::*which) {
    return {both(w.gate).*which, both(w.up).*which, both(w.down).*which, both(w.gate_up).*which};
  }

  /// The subject's states before an op: those of the reference, so that errors do not add up.
  template <class State>
  struct Copies {
    template <class F>
    Copies(std::span<State* const> from, F copy) : states(from.size()) {
      for (size_t i = 0; i < from.size(); ++i) {
        if (from[i]) states[i] = copy(*from[i]);
        pointers.push_back(from[i] ? &states[i] : nullptr);
      }
    }
    std::vector<State> states;
    std::vector<State*> pointers;
  };

  Tensor up(const Tensor& t) { return subject_.upload(t); }
  Owned kept(const Owned& o) { return o ? Owned{up(o), nullptr} : Owned{}; }
  const Tensor& vector(const Tensor& t) const { return vectors_.at(t.data).view; }
  Storage down(const Tensor& t) {
    Storage host(t.shape, t.dtype);
    subject_.download(t, host.tensor());
    return host;
  }

  static std::vector<float> wide(const Tensor& t) {
    std::vector<float> values(static_cast<size_t>(t.elements()));
    convert_to_float(t.dtype, t.data, values.data(), values.size());
    return values;
  }

  /// Compares, and gives the reference back.
  Tensor same(const char* op, const Tensor& reference, const Tensor& subject) {
    EXPECT_EQ(reference.shape, subject.shape) << op;
    EXPECT_EQ(reference.dtype, subject.dtype) << op;
    const double bound = precision() == Precision::F32 ? tolerance::kF32Op : tolerance::kBf16Op;
    EXPECT_TRUE(close(wide(down(subject).tensor()), wide(reference), bound)) << op << " " << str(reference);
    ++compared;
    return reference;
  }

  Ops& subject_;
  std::unordered_map<const void*, Owned> vectors_;  // by the reference's memory
};

}  // namespace kvcal
