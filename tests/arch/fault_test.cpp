// The tests of this folder can fail: a backend that keeps recurrent state between sequences is caught by comparing with
// the sequence alone. And the tokens a plan promises are really fed, in every pass, through every layer.
#include <gtest/gtest.h>

#include "arch/golden.h"
#include "harness/forwarding_ops.h"
#include "harness/loaded_model.h"
#include "harness/recording_tap.h"

namespace kvcal {
namespace {

// Continues a fresh sequence from whatever sequence ran before it, in every kind of recurrent state.
class LeakyOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;

 protected:
  Tensor do_gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                             std::span<const Span> spans, std::span<DeltaState* const> states) override {
    return leak(delta_, states, &DeltaState::s, {v.dim(1), q.dim(2), v.dim(2)},
                [&](std::span<DeltaState* const> all) { return inner_.gated_delta_rule(q, k, v, gates, spans, all); });
  }
  Tensor do_ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                std::span<SsmState* const> states) override {
    return leak(ssm_, states, &SsmState::s, {in.x.dim(1), in.b.dim(2), in.x.dim(2)},
                [&](std::span<SsmState* const> all) { return inner_.ssd(in, w, spans, all); });
  }
  Tensor do_selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                           std::span<SsmState* const> states) override {
    return leak(ssm_, states, &SsmState::s, {in.x.dim(1), in.b.dim(1)},
                [&](std::span<SsmState* const> all) { return inner_.selective_scan(in, w, spans, all); });
  }
  Tensor do_causal_conv(const Tensor& x, const ConvWeights& w, std::span<const Span> spans,
                        std::span<ConvState* const> states) override {
    if (w.silu) return inner_.causal_conv(x, w, spans, states);  // other layers have more than this to leak
    return leak(conv_, states, &ConvState::window, {w.w.dim(1) - 1, x.dim(1)},
                [&](std::span<ConvState* const> all) { return inner_.causal_conv(x, w, spans, all); });
  }

 private:
  template <class State, class Run>
  static Tensor leak(State& left, std::span<State* const> states, Owned State::*kept, const Shape& shape,
                     const Run& run) {
    std::vector<State> of_whole(states.size());  // a sequence that is not cut brings none
    std::vector<State*> all;
    for (size_t i = 0; i < states.size(); ++i) {
      all.push_back(states[i] ? states[i] : &of_whole[i]);
      if (!(all[i]->*kept) && left.*kept && (left.*kept).view.shape == shape) *all[i] = left;
    }
    const Tensor result = run(all);
    if (!all.empty()) left = *all.back();
    return result;
  }

  DeltaState delta_;
  SsmState ssm_;
  ConvState conv_;
};

class CountingOps final : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  int64_t embedded = 0, attended = 0;

 protected:
  Tensor do_embed(const Tensor& t, std::span<const int32_t> ids) override {
    embedded += static_cast<int64_t>(ids.size());
    return inner_.embed(t, ids);
  }
  Tensor do_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                      std::span<KvRows* const> rows, const AttentionSpec& spec) override {
    attended += q.dim(0);
    return inner_.attention(q, k, v, spans, rows, spec);
  }
};

std::vector<PromptTokens> prompts() {
  std::vector<PromptTokens> list;
  for (int p = 0; p < 5; ++p) {
    PromptTokens prompt{"p" + std::to_string(p), {}, 1 + p % 2};
    for (int t = 0; t < 40 + 90 * p; ++t) prompt.ids.push_back((7 * t + 13 * p) % 90 + 3);
    list.push_back(prompt);
  }
  return list;
}

std::map<RecordingTap::Key, Recorded> record(Ops& op, LoadedModel& m, const std::vector<Sequence>& sequences,
                                             const std::vector<PromptTokens>& list) {
  RecordingTap tap;
  Runner runner(*m.model, op, m.weights, 256);
  runner.run({{&sequences, &tap, Until::LastKv, nullptr}}, list);
  return std::move(tap.seen);
}

class Fault : public ::testing::TestWithParam<const char*> {};

TEST_P(Fault, state_kept_between_sequences_is_caught) {
  LoadedModel m(Golden(GetParam()).folder, {Precision::BF16, 1, true});
  const SequencePlan plan = plan_sequences(prompts(), {});
  const std::vector<Sequence> last = {plan.measured.back()};
  const auto alone = record(*m.ops, m, last, plan.prompts);
  const auto compare_with_alone = [&](Ops& op) {
    int differences = 0;
    const auto all = record(op, m, plan.measured, plan.prompts);
    for (const auto& [key, recorded] : alone) differences += recorded.bytes != all.at(key).bytes;
    return differences;
  };
  EXPECT_EQ(compare_with_alone(*m.ops), 0);
  LeakyOps leaky(*m.ops);
  EXPECT_GT(compare_with_alone(leaky), 0);
}

// Delta rule, Mamba-2, Mamba-1, short convolution.
INSTANTIATE_TEST_SUITE_P(EachKindOfState, Fault, ::testing::Values("qwen3_5_long", "bamba", "jamba", "lfm2"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(Fed, every_token_of_every_pass_goes_through_every_layer) {
  LoadedModel m(Golden("llama").folder, {Precision::BF16, 2, true});
  SequenceOptions options;
  options.passes = 3;
  options.warmup_passes = 2;
  options.max_length = 600;
  const SequencePlan plan = plan_sequences(prompts(), options);
  int64_t once = 0, warm = 0, sane = 0;
  for (const PromptTokens& p : plan.prompts) once += p.weight * static_cast<int64_t>(p.ids.size());
  for (const Sequence& s : plan.warmup) warm += s.n_tokens;
  for (const Sequence& s : plan.sanity) sane += s.n_tokens;
  EXPECT_EQ(plan.n_tokens(), 3 * once);
  const int64_t run = tokens_of(plan.measured);  // without repeats
  EXPECT_TRUE(run > once && run < 3 * once) << run;
  EXPECT_GT(warm, 0);
  EXPECT_EQ(sane, 40 + 3 * 64);

  CountingOps counting(*m.ops);
  RecordingTap tap;
  NoTap away;
  Runner runner(*m.model, counting, m.weights, 256);
  runner.run({{&plan.warmup, &away, Until::LastKv, nullptr}, {&plan.measured, &tap, Until::LastKv, nullptr}},
             plan.prompts);
  EXPECT_EQ(counting.embedded, run + warm);
  // The last layer with a cache ends after its taps.
  const int64_t n_layers = static_cast<int64_t>(m.model->spec().layers.size());
  EXPECT_EQ(counting.attended, (run + warm) * (n_layers - 1));
  std::map<int, int64_t> seen;  // tokens by cache
  for (const auto& [key, recorded] : tap.seen)
    if (std::get<2>(key) == Site::Key) seen[std::get<1>(key)] += recorded.n_tokens;
  EXPECT_EQ(static_cast<int64_t>(seen.size()), n_layers);
  for (const auto& [cache, n] : seen) EXPECT_EQ(n, run) << "cache " << cache;
}

}  // namespace
}  // namespace kvcal
