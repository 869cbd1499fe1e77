// A sequence in several calls, each beside another sequence, against the same sequence in one call: what is kept of
// keys, values, convolution windows and recurrent states.
#include <functional>

#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

constexpr int64_t kTokens = 150, kOther = 21;

/// One call: rows of the other sequence, then rows [from, from + n) of the sequence.
struct Call {
  int64_t from, n;
  std::vector<Span> spans() const { return {{0, kOther, 0}, {kOther, n, from}}; }

  /// x [kOther + kTokens, ..] -> the rows of this call.
  Values rows(const Values& x) const {
    const Shape& s = x.tensor().shape;
    const int64_t width = x.tensor().elements() / s[0];
    std::vector<double> picked(x.real.begin(), x.real.begin() + kOther * width);
    const auto first = x.real.begin() + (kOther + from) * width;
    picked.insert(picked.end(), first, first + n * width);
    return values(s.rank() == 2 ? Shape{kOther + n, s[1]} : Shape{kOther + n, s[1], s[2]}, x.tensor().dtype, picked);
  }
};

using Op = std::function<Tensor(const Call&)>;

/// The sequence's own rows of the results of all calls, one after the other.
std::vector<double> results(const std::vector<Call>& calls, const Op& op) {
  std::vector<double> all;
  for (const Call& c : calls) {
    const std::vector<double> y = read(op(c));
    all.insert(all.end(), y.begin() + static_cast<ptrdiff_t>(y.size()) / (kOther + c.n) * kOther, y.end());
  }
  return all;
}

/// An input that the calls of an op share.
std::shared_ptr<const Values> input(const Shape& shape, DType dtype, uint32_t seed, double sigma = 1.0) {
  return std::make_shared<const Values>(random_values(shape, dtype, seed, Fill::Normal, sigma));
}

/// make(op) gives the op with fresh states.
void expect_continues(const char* what, Precision p, const std::function<Op(Ops&)>& make) {
  const auto op = backend(p);
  const std::vector<double> whole = results({{0, kTokens}}, make(*op));
  const std::vector<std::vector<Call>> cuts = {{{0, 64}, {64, 64}, {128, 22}}, {{0, 1}, {1, 2}, {3, 70}, {73, 77}}};
  for (const auto& calls : cuts) {
    op->end_batch();
    // Cuts off the multiples of 64 change the order of sums.
    expect_close(what, results(calls, make(*op)), whole, {p == Precision::BF16 ? 0x1p-7 : 1e-5, 1e-5});
  }
}

TEST(Continuation, Attention) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const AttentionSpec& spec :
         {AttentionSpec{0.2f}, AttentionSpec{0.2f, 40}, AttentionSpec{0.2f, 0, 0.0f, {}, 70}})
      expect_continues("attention", p, [&](Ops& op) -> Op {
        const DType t = op.activation_dtype();
        const auto q = input({kOther + kTokens, 4, 24}, t, 1), k = input({kOther + kTokens, 2, 24}, t, 2),
                   v = input({kOther + kTokens, 2, 16}, t, 3);
        const auto kept = std::make_shared<KvRows>();
        return [=, &op](const Call& c) {
          KvRows* const rows[] = {nullptr, kept.get()};  // max_tokens is not given: the room has to grow
          return op.attention(c.rows(*q), c.rows(*k), c.rows(*v), c.spans(), rows, spec);
        };
      });
}

TEST(Continuation, Convolution) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    expect_continues("convolution", p, [](Ops& op) -> Op {
      const auto x = input({kOther + kTokens, 130}, op.activation_dtype(), 1);
      const Owned w = op.load_f32(random_values({130, 4}, DType::F32, 2));
      const auto kept = std::make_shared<ConvState>();
      return [=, &op](const Call& c) {
        ConvState* const states[] = {nullptr, kept.get()};
        return op.causal_conv(c.rows(*x), {w}, c.spans(), states);
      };
    });
}

TEST(Continuation, AttentionWithSinks) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    expect_continues("attention", p, [](Ops& op) -> Op {
      const DType t = op.activation_dtype();
      const auto q = input({kOther + kTokens, 4, 24}, t, 1), k = input({kOther + kTokens, 2, 24}, t, 2),
                 v = input({kOther + kTokens, 2, 16}, t, 3), sinks = input({4}, DType::F32, 4);
      const auto kept = std::make_shared<KvRows>();
      return [=, &op](const Call& c) {
        KvRows* const rows[] = {nullptr, kept.get()};
        return op.attention(c.rows(*q), c.rows(*k), c.rows(*v), c.spans(), rows, {0.2f, 40, 2.0f, *sinks});
      };
    });
}

TEST(Continuation, StateSpaceDuality) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    expect_continues("ssd", p, [](Ops& op) -> Op {
      const DType t = op.activation_dtype();
      const int64_t rows = kOther + kTokens;
      const auto x = input({rows, 2, 24}, t, 1), dt = input({rows, 2}, t, 2), b = input({rows, 1, 16}, t, 3, 0.5),
                 c = input({rows, 1, 16}, t, 4, 0.5), a_log = input({2}, DType::F32, 5),
                 bias = input({2}, DType::F32, 6), d = input({2}, DType::F32, 7);
      const auto kept = std::make_shared<SsmState>();
      return [=, &op](const Call& call) {
        SsmState* const states[] = {nullptr, kept.get()};
        const Values own[] = {call.rows(*x), call.rows(*dt), call.rows(*b), call.rows(*c)};
        return op.ssd({own[0], own[1], own[2], own[3]}, {*a_log, *bias, *d}, call.spans(), states);
      };
    });
}

TEST(Continuation, SelectiveScan) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    expect_continues("selective scan", p, [](Ops& op) -> Op {
      const DType t = op.activation_dtype();
      const int64_t rows = kOther + kTokens;
      const auto x = input({rows, 20}, t, 1), dt = input({rows, 20}, t, 2), b = input({rows, 16}, t, 3),
                 c = input({rows, 16}, t, 4), a_log = input({20, 16}, DType::F32, 5), bias = input({20}, DType::F32, 6),
                 d = input({20}, DType::F32, 7);
      const auto kept = std::make_shared<SsmState>();
      return [=, &op](const Call& call) {
        SsmState* const states[] = {nullptr, kept.get()};
        const Values own[] = {call.rows(*x), call.rows(*dt), call.rows(*b), call.rows(*c)};
        return op.selective_scan({own[0], own[1], own[2], own[3]}, {*a_log, *bias, *d}, call.spans(), states);
      };
    });
}

void expect_delta_rule_continues(Precision p, bool by_channel) {
  expect_continues("delta rule", p, [by_channel](Ops& op) -> Op {
    const DType t = op.activation_dtype();
    const auto q = input({kOther + kTokens, 1, 16}, t, 1, 0.2), k = input({kOther + kTokens, 1, 16}, t, 2, 0.2),
               v = input({kOther + kTokens, 2, 20}, t, 3);
    std::vector<double> decay, strength;
    const int64_t rows = (kOther + kTokens) * 2;
    for (int64_t i = 0; i < (by_channel ? rows * 16 : rows); ++i) decay.push_back(-0.02 * static_cast<double>(i % 7));
    for (int64_t i = 0; i < rows; ++i) strength.push_back(0.1 + 0.1 * static_cast<double>(i % 9));
    const Shape per_head{kOther + kTokens, 2}, per_channel{kOther + kTokens, 2, 16};
    const auto g = std::make_shared<const Values>(values(by_channel ? per_channel : per_head, DType::F32, decay)),
               beta = std::make_shared<const Values>(values(per_head, DType::F32, strength));
    const auto kept = std::make_shared<DeltaState>();
    return [=, &op](const Call& c) {
      DeltaState* const states[] = {nullptr, kept.get()};
      const Values gate = c.rows(*g), rate = c.rows(*beta);
      return op.gated_delta_rule(c.rows(*q), c.rows(*k), c.rows(*v), {gate, rate}, c.spans(), states);
    };
  });
}

TEST(Continuation, DeltaRule) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const bool by_channel : {false, true}) expect_delta_rule_continues(p, by_channel);
}

}  // namespace
}  // namespace kvcal::test
