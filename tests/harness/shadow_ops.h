// Runs every op on two backends with the same inputs and compares: any architecture on any prompt becomes a test of
// every op it uses, which names the first that disagrees. The reference computes on the host, and its results go on.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "harness/compare.h"
#include "harness/each_op.h"
#include "harness/op_arguments.h"
#include "harness/tolerances.h"

namespace kvcal {

class ShadowOps final : public EachOp<ShadowOps> {
 public:
  ShadowOps(Ops& reference, Ops& subject) : EachOp(reference), subject_(subject) {}

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
    return pair(load_vector(inner_, w, as, plus), load_vector(subject_, w, as, plus));
  }
  std::shared_ptr<const ColumnNorms> do_load_column_norms(const Tensor& w, const Tensor& e, int64_t n) override {
    const auto norms = inner_.load_column_norms(w, e, n), subject = subject_.load_column_norms(w, e, n);
    EXPECT_EQ(*norms->on_host, *subject->on_host);
    pair(norms->values, subject->values);
    return norms;
  }
  LinearGroup do_load_linears(std::span<const HostLinear> w) override {
    const LinearGroup reference = inner_.load_linears(w), subject = subject_.load_linears(w);
    LinearGroup group;
    for (size_t i = 0; i < w.size(); ++i) group.parts.push_back(pair(reference.parts[i], subject.parts[i]));
    group.all = pair(reference.all, subject.all);
    return group;
  }

  AttentionSample do_sample_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                      std::span<const KvRows* const> rows, const AttentionSpec& spec,
                                      const SampleRequest& request) override {
    SampleRequest shared = request;
    shared.thorough = {};
    EachOp::do_sample_attention(q, k, v, spans, rows, spec, shared);
    return inner_.sample_attention(q, k, v, spans, rows, spec, request);
  }
  void do_accumulate(const Tensor& x, const TapTables& tables, std::span<const TapRows> rows) override {
    inner_.accumulate(x, tables, rows);  // the tables are the reference's
  }
  void do_count_states(std::span<const Tensor> states, const TapTables& tables,
                       std::span<const TapRows> rows) override {
    inner_.count_states(states, tables, rows);
  }

 private:
  friend EachOp;

  /// The subject first: its states are those that the reference has before the op, so that errors do not add up.
  template <class Result, class... Parameters, class... Args>
  Result call(const char* name, Result (Ops::*op)(Parameters...), const Args&... args) {
    auto there = std::make_tuple(on_subject(args)...);
    const auto run_subject = [&] { return std::apply([&](const auto&... a) { return (subject_.*op)(a...); }, there); };
    const auto compare_states = [&] {
      std::apply([&](const auto&... a) { (same_states(name, args, a), ...); }, there);
    };
    if constexpr (std::is_void_v<Result>) {
      run_subject();
      (inner_.*op)(part(args, &Both::reference)...);
      compare_states();
    } else {
      const Result subject = run_subject(), reference = (inner_.*op)(part(args, &Both::reference)...);
      compare_states();
      same(name, reference, subject);
      return reference;
    }
  }

  // ---------------------------------------------------------------- weights

  struct Both {
    Linear reference, subject;
  };
  static Linear pair(Linear reference, Linear subject) {
    reference.input = subject.input = {};  // has been rounded when it comes here
    return {subject.in, subject.out, std::make_shared<const Both>(Both{reference, subject}), reference.bias};
  }
  /// Kept for good: no other tensor gets the memory of a known one.
  Owned pair(const Owned& reference, const Owned& subject) {
    vectors_[reference.view.data] = {reference, subject};
    return reference;
  }

  /// An argument with one of the two weights that each of its weights stands for.
  template <class T>
  static T part(T x, Linear Both::*) {
    return x;
  }
  static Linear part(const Linear& l, Linear Both::*which) {
    return l ? static_cast<const Both*>(l.packed.get())->*which : Linear{};
  }
  static std::vector<Linear> part(std::span<const Linear> weights, Linear Both::*which) {
    std::vector<Linear> all;
    for (const Linear& w : weights) all.push_back(part(w, which));
    return all;
  }
  static LinearGroup part(const LinearGroup& w, Linear Both::*which) {
    return {part(std::span<const Linear>(w.parts), which), part(w.all, which)};
  }
  static GluWeights part(const GluWeights& w, Linear Both::*which) {
    GluWeights own = {part(w.gate, which), part(w.up, which), part(w.down, which), part(w.gate_up, which), w.act};
    own.down.input = w.down.input;
    return own;
  }
  static std::vector<GluWeights> part(std::span<const GluWeights> weights, Linear Both::*which) {
    std::vector<GluWeights> all;
    for (const GluWeights& w : weights) all.push_back(part(w, which));
    return all;
  }

  // ---------------------------------------------------------------- arguments for the subject

  template <class T>
  auto on_subject(const T& x) {
    return mapped(part(x, &Both::subject), [&](const Tensor& t) { return there(t); });
  }

  /// The subject's own weight, or a copy of what the reference has.
  Tensor there(const Tensor& t) {
    if (!t) return t;
    const auto known = vectors_.find(t.data);
    return known == vectors_.end() ? subject_.upload(t) : known->second.subject.view.reshaped(t.shape);
  }
  Owned there(const Owned& o) { return {there(o.view), nullptr}; }

  /// States as the reference has them.
  template <class State>
  struct Copies {
    std::vector<std::remove_const_t<State>> states;
    std::vector<State*> pointers;
    operator std::span<State* const>() const { return pointers; }
  };
  template <class State>
  Copies<State> on_subject(std::span<State* const> from) {
    Copies<State> copies{std::vector<std::remove_const_t<State>>(from.size()), {}};
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i]) copies.states[i] = copy(*from[i]);
      copies.pointers.push_back(from[i] ? &copies.states[i] : nullptr);
    }
    return copies;
  }
  KvRows copy(const KvRows& r) { return {there(r.key), there(r.value), r.n_tokens, r.max_tokens}; }
  ConvState copy(const ConvState& s) { return {there(s.window)}; }
  DeltaState copy(const DeltaState& s) { return {there(s.s), s.stored, {}}; }
  SsmState copy(const SsmState& s) { return {there(s.s), s.stored, {}}; }

  // ---------------------------------------------------------------- comparison

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

  void same(const char* op, const Tensor& reference, const Tensor& subject) {
    EXPECT_EQ(reference.shape, subject.shape) << op;
    EXPECT_EQ(reference.dtype, subject.dtype) << op;
    const double bound = precision() == Precision::F32 ? tolerance::kF32Op : tolerance::kBf16Op;
    EXPECT_TRUE(close(wide(down(subject).tensor()), wide(reference), bound)) << op << " " << str(reference);
    ++compared;
  }
  void same(const char* op, const Ops::DeltaGates& reference, const Ops::DeltaGates& subject) {
    same(op, reference.g, subject.g);
    same(op, reference.beta, subject.beta);
  }
  void same(const char* op, const Ops::SumAndNorm& reference, const Ops::SumAndNorm& subject) {
    same(op, reference.sum, subject.sum);
    same(op, reference.normed, subject.normed);
  }
  void same(const char* op, const std::vector<Tensor>& reference, const std::vector<Tensor>& subject) {
    for (size_t i = 0; i < reference.size(); ++i) same(op, reference[i], subject[i]);
  }
  void same(const char* op, const Routing& reference, const Routing& subject) {
    const Storage experts = down(subject.experts);
    for (int64_t i = 0; i < reference.experts.elements(); ++i)
      EXPECT_EQ(experts.tensor().as<int32_t>()[i], reference.experts.as<int32_t>()[i]) << op << ", choice " << i;
    same(op, reference.weights, subject.weights);
  }
  void same(const char* op, const Owned& reference, const Owned& subject) {
    if (reference.view.dtype != DType::I64) return same(op, reference.view, subject.view);
    EXPECT_EQ(reference.view.shape, subject.view.shape) << op;  // choices of keys
    const Storage there = down(subject.view);
    for (int64_t i = 0; i < reference.view.elements(); ++i)
      EXPECT_EQ(there.tensor().as<uint64_t>()[i], reference.view.as<uint64_t>()[i]) << op << ", word " << i;
  }
  void same(const char* op, const AttentionSample& reference, const AttentionSample& subject) {
    const Storage rungs = down(subject.rungs), figures = down(subject.figures);
    for (int64_t i = 0; i < rungs.tensor().elements(); ++i)
      EXPECT_EQ(rungs.tensor().as<int32_t>()[i], reference.rungs.view.as<int32_t>()[i]) << op << ", rung " << i;
    for (int64_t i = 0; i < figures.tensor().elements(); ++i) {
      const int64_t figure = i % kSampleFigures;
      const float* expected = reference.figures.view.as<float>() + i - figure;
      const bool weighted = figure >= kFigureChange || figure == kFigureOutput;  // by probabilities, perhaps in bf16
      const double least =
          weighted ? tolerance::kSampledShare * static_cast<double>(expected[kFigureOutput]) : tolerance::kSampledNats;
      const auto value = static_cast<double>(expected[figure]);
      EXPECT_NEAR(static_cast<double>(figures.tensor().as<float>()[i]), value,
                  (weighted ? tolerance::kSampledWeighted : tolerance::kSampled) * value + least)
          << op << ", figure " << figure << " of row and head " << i / kSampleFigures;
    }
    ASSERT_EQ(static_cast<bool>(reference.stream), static_cast<bool>(subject.stream)) << op;
    if (reference.stream) same_squares(op, reference.stream, down(subject.stream).tensor());
    ++compared;
  }

  void same_squares(const char* op, const Tensor& reference, const Tensor& subject) {
    for (int64_t i = 0; i < reference.elements(); ++i) {
      const double expected = reference.as<double>()[i];
      EXPECT_NEAR(subject.as<double>()[i], expected, 1e-12 * expected) << op << ", |x|² of row " << i;
    }
  }

  template <class Argument, class There>
  void same_states(const char*, const Argument&, const There&) {}
  template <class State>
  void same_states(const char* op, std::span<State* const> reference, const Copies<State>& subject) {
    if constexpr (!std::is_const_v<State>)
      for (size_t i = 0; i < reference.size(); ++i)
        if (reference[i]) same_state(op, *reference[i], subject.states[i]);
  }
  void same_state(const char* op, const KvRows& r, const KvRows& subject) {
    ASSERT_EQ(r.n_tokens, subject.n_tokens) << op;
    same(op, r.key.view.rows(0, r.n_tokens), subject.key.view.rows(0, r.n_tokens));
    if (r.value) same(op, r.value.view.rows(0, r.n_tokens), subject.value.view.rows(0, r.n_tokens));
  }
  void same_state(const char* op, const ConvState& r, const ConvState& subject) { same(op, r.window, subject.window); }
  void same_state(const char* op, const DeltaState& r, const DeltaState& subject) { same(op, r.s, subject.s); }
  void same_state(const char* op, const SsmState& r, const SsmState& subject) { same(op, r.s, subject.s); }

  struct Vectors {
    Owned reference, subject;
  };
  Ops& subject_;
  std::unordered_map<const void*, Vectors> vectors_;  // by the reference's memory
};

}  // namespace kvcal
