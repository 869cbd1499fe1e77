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
  Linear do_load_linear_f32(const Tensor& w, const Tensor& b) override {
    return pair(inner_.load_linear_f32(w, b), subject_.load_linear_f32(w, b));
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
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& w, const Tensor& e, int64_t n) override {
    const auto norms = inner_.load_column_norms(w, e, n), subject = subject_.load_column_norms(w, e, n);
    EXPECT_EQ(norms->on_host, subject->on_host);
    vectors_[norms->values.view.data] = subject->values;
    return norms;
  }
  Tensor do_embed(const Tensor& t, std::span<const int32_t> ids) override {
    return same("embed", inner_.embed(t, ids), subject_.embed(t, ids));
  }
  Tensor do_linear(const Tensor& x, const Linear& w) override {
    return same("linear", inner_.linear(x, both(w).reference), subject_.linear(up(x), both(w).subject));
  }
  Tensor do_linear_f32(const Tensor& x, const Linear& w) override {
    return same("linear_f32", inner_.linear_f32(x, both(w).reference), subject_.linear_f32(up(x), both(w).subject));
  }
  Tensor do_round_input(const Tensor& x, const InputRounding& r) override {
    return same("round_input", inner_.round_input(x, r), subject_.round_input(up(x), r));
  }
  Tensor do_rms_norm(const Tensor& x, const Tensor& g, float eps) override {
    return same("rms_norm", inner_.rms_norm(x, g, eps), subject_.rms_norm(up(x), vector(g), eps));
  }
  Tensor do_add(const Tensor& x, const Tensor& y) override {
    return same("add", inner_.add(x, y), subject_.add(up(x), up(y)));
  }
  Tensor do_linear_per_head(const Tensor& x, std::span<const Linear> heads) override {
    std::vector<Linear> reference, subject;
    for (const Linear& w : heads) {
      reference.push_back(both(w).reference);
      subject.push_back(both(w).subject);
    }
    return same("linear_per_head", inner_.linear_per_head(x, reference), subject_.linear_per_head(up(x), subject));
  }
  Tensor do_layer_norm(const Tensor& x, const Tensor& g, const Tensor& b, float eps) override {
    return same("layer_norm", inner_.layer_norm(x, g, b, eps), subject_.layer_norm(up(x), vector(g), vector(b), eps));
  }
  Tensor do_scale(const Tensor& x, float factor) override {
    return same("scale", inner_.scale(x, factor), subject_.scale(up(x), factor));
  }
  Tensor do_mul(const Tensor& x, const Tensor& y) override {
    return same("mul", inner_.mul(x, y), subject_.mul(up(x), up(y)));
  }
  Tensor do_activate(const Tensor& x, Activation act) override {
    return same("activate", inner_.activate(x, act), subject_.activate(up(x), act));
  }
  Tensor do_softcap(const Tensor& x, float c) override {
    return same("softcap", inner_.softcap(x, c), subject_.softcap(up(x), c));
  }
  Tensor do_join(const Tensor& a, const Tensor& b) override {
    return same("join", inner_.join(a, b), subject_.join(up(a), up(b)));
  }
  Tensor do_glu(const Tensor& g, const Tensor& u, Activation act) override {
    return same("glu", inner_.glu(g, u, act), subject_.glu(up(g), up(u), act));
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
    const Tensor y = subject_.attention(up(q), up(k), up(v), spans, copies.pointers, on_subject(spec));
    const Tensor reference = inner_.attention(q, k, v, spans, rows, spec);
    same_rows(rows, copies.states);
    return same("attention", reference, y);
  }
  void do_keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans,
                    std::span<KvRows* const> rows) override {
    const Copies<KvRows> copies(rows, [&](const KvRows& r) {
      return KvRows{kept(r.key), kept(r.value), r.n_tokens, r.max_tokens};
    });
    subject_.keep_rows(up(k), up(v), spans, copies.pointers);
    inner_.keep_rows(k, v, spans, rows);
    same_rows(rows, copies.states);
  }
  AttentionSample do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                      std::span<const KvRows* const> rows, const AttentionSpec& spec,
                                      const SampleRequest& request) override {
    std::vector<KvRows> copies(rows.size());
    std::vector<const KvRows*> pointers;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]) copies[i] = {kept(rows[i]->key), kept(rows[i]->value), rows[i]->n_tokens, rows[i]->max_tokens};
      pointers.push_back(rows[i] ? &copies[i] : nullptr);
    }
    SampleRequest every = request, on = request;
    every.thorough = on.thorough = {};
    every.shares_rungs = false;  // as a device may do
    on.column_norms = vector(request.column_norms);
    same_samples(inner_.sample_attention(q, k, v, spans, rows, spec, every),
                 subject_.sample_attention(up(q), up(k), up(v), spans, pointers, on_subject(spec), on));
    return inner_.sample_attention(q, k, v, spans, rows, spec, request);
  }
  Tensor do_attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                        const AttentionSpec& spec) override {
    std::vector<KvRows> copies;
    for (const KvRows* r : rows) copies.push_back({kept(r->key), kept(r->value), r->n_tokens, r->max_tokens});
    std::vector<const KvRows*> pointers;
    for (const KvRows& r : copies) pointers.push_back(&r);
    return same("attend_kept", inner_.attend_kept(q, spans, rows, spec),
                subject_.attend_kept(up(q), spans, pointers, on_subject(spec)));
  }
  Tensor do_causal_conv(const Tensor& x, const ConvWeights& w, std::span<const Span> spans,
                        std::span<ConvState* const> states) override {
    const Copies<ConvState> copies(states, [&](const ConvState& s) { return ConvState{kept(s.window)}; });
    const Tensor y = subject_.causal_conv(up(x), {vector(w.w), vector(w.bias), w.silu}, spans, copies.pointers);
    const Tensor reference = inner_.causal_conv(x, w, spans, states);
    for (size_t i = 0; i < states.size(); ++i)
      if (states[i]) same("convolution window", states[i]->window, copies.states[i].window);
    return same("causal_conv", reference, y);
  }
  Tensor do_l2_norm(const Tensor& x, float eps) override {
    return same("l2_norm", inner_.l2_norm(x, eps), subject_.l2_norm(up(x), eps));
  }
  DeltaGates do_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    const DeltaGates reference = inner_.delta_gates(a, b, l, d),
                     gates = subject_.delta_gates(up(a), up(b), vector(l), vector(d));
    return {same("delta_gates g", reference.g, gates.g), same("delta_gates beta", reference.beta, gates.beta)};
  }
  DeltaGates do_channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& l, const Tensor& d) override {
    const DeltaGates reference = inner_.channel_delta_gates(a, b, l, d),
                     gates = subject_.channel_delta_gates(up(a), up(b), vector(l), vector(d));
    return {same("channel_delta_gates g", reference.g, gates.g),
            same("channel_delta_gates beta", reference.beta, gates.beta)};
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
  Tensor do_gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec) override {
    GatedNormSpec on = spec;
    on.gain = vector(spec.gain);
    return same("gated_rms_norm", inner_.gated_rms_norm(x, z, spec), subject_.gated_rms_norm(up(x), up(z), on));
  }
  Routing do_route(const Tensor& l, const RoutingSpec& spec) override {
    RoutingSpec on = spec;
    on.bias = vector(spec.bias);
    const Routing reference = inner_.route(l, spec), routing = subject_.route(up(l), on);
    const Storage experts = down(routing.experts);
    for (int64_t i = 0; i < reference.experts.elements(); ++i)
      EXPECT_EQ(experts.tensor().as<int32_t>()[i], reference.experts.as<int32_t>()[i]) << "route, choice " << i;
    same("route", reference.weights, routing.weights);
    return reference;
  }
  Tensor do_experts(const Tensor& x, const Routing& r, std::span<const GluWeights> e) override {
    std::vector<GluWeights> reference, subject;
    for (const GluWeights& w : e) {
      reference.push_back(of(w, &Both::reference));
      subject.push_back(of(w, &Both::subject));
    }
    return same("experts", inner_.experts(x, r, reference),
                subject_.experts(up(x), {up(r.experts), up(r.weights)}, subject));
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
  Tensor do_glu_mlp(const Tensor& x, const GluWeights& w) override {
    return same("glu_mlp", inner_.glu_mlp(x, of(w, &Both::reference)), subject_.glu_mlp(up(x), of(w, &Both::subject)));
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
  static Linear pair(Linear reference, Linear subject) {
    reference.input = subject.input = {};  // has been rounded when it comes here
    return {subject.in, subject.out, std::make_shared<const Both>(Both{reference, subject}), reference.bias};
  }
  static const Both& both(const Linear& l) { return *static_cast<const Both*>(l.packed.get()); }
  static GluWeights of(const GluWeights& w, Linear Both::*which) {
    const auto part = [&](const Linear& l) { return l ? both(l).*which : Linear{}; };
    GluWeights own = {part(w.gate), part(w.up), part(w.down), part(w.gate_up), w.act};
    own.down.input = w.down.input;
    return own;
  }
  AttentionSpec on_subject(const AttentionSpec& spec) const {
    AttentionSpec on = spec;
    on.sinks = vector(spec.sinks);
    return on;
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

  Tensor up(const Tensor& t) { return t ? subject_.upload(t) : t; }
  Owned kept(const Owned& o) { return o ? Owned{up(o), nullptr} : Owned{}; }
  Tensor vector(const Tensor& t) const { return t ? vectors_.at(t.data).view : Tensor{}; }
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

  void same_rows(std::span<KvRows* const> reference, const std::vector<KvRows>& subject) {
    for (size_t i = 0; i < reference.size(); ++i) {
      if (!reference[i]) continue;
      const KvRows& r = *reference[i];
      ASSERT_EQ(r.n_tokens, subject[i].n_tokens);
      same("kept keys", r.key.view.rows(0, r.n_tokens), subject[i].key.view.rows(0, r.n_tokens));
      same("kept values", r.value.view.rows(0, r.n_tokens), subject[i].value.view.rows(0, r.n_tokens));
    }
  }

  void same_samples(const AttentionSample& reference, const AttentionSample& subject) {
    const Storage rungs = down(subject.rungs), figures = down(subject.figures);
    for (int64_t i = 0; i < rungs.tensor().elements(); ++i)
      EXPECT_EQ(rungs.tensor().as<int32_t>()[i], reference.rungs.view.as<int32_t>()[i])
          << "sample_attention, rung " << i;
    for (int64_t i = 0; i < figures.tensor().elements(); ++i) {
      const int64_t figure = i % kSampleFigures;
      const float* expected = reference.figures.view.as<float>() + i - figure;
      const bool weighted = figure >= kFigureChange || figure == kFigureOutput;  // by probabilities, perhaps in bf16
      const double least =
          weighted ? tolerance::kSampledShare * static_cast<double>(expected[kFigureOutput]) : tolerance::kSampledNats;
      const auto value = static_cast<double>(expected[figure]);
      EXPECT_NEAR(static_cast<double>(figures.tensor().as<float>()[i]), value,
                  (weighted ? tolerance::kSampledWeighted : tolerance::kSampled) * value + least)
          << "sample_attention, figure " << figure << " of row and head " << i / kSampleFigures;
    }
    ++compared;
  }

  Ops& subject_;
  std::unordered_map<const void*, Owned> vectors_;  // by the reference's memory
};

}  // namespace kvcal
