// Routing and experts against their definitions in double.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

double act(Activation a, double x) {
  switch (a) {
    case Activation::Gelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::GeluTanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::Relu2:
      return x > 0.0 ? x * x : 0.0;
    default:
      return x * sigmoid(x);
  }
}

/// An expert's weights on the host; biases may be absent.
struct Host {
  Values gate, up, down, gate_bias, up_bias, down_bias;

  Host(const MoeCase& c, DType t, int64_t e) {
    const auto seed = static_cast<uint32_t>(10 * e + 3);
    gate = random_values({c.ffn, c.dim}, t, seed, Fill::Normal, 0.2);
    up = random_values({c.ffn, c.dim}, t, seed + 1, Fill::Normal, 0.2);
    down = random_values({c.dim, c.ffn}, t, seed + 2, Fill::Normal, 0.2);
    if (!c.biased) return;
    const DType bias = e % 2 == 0 ? DType::BF16 : DType::F32;  // what is exact in bf16 is kept so
    gate_bias = random_values({c.ffn}, bias, seed + 3);
    up_bias = random_values({c.ffn}, bias, seed + 4);
    down_bias = random_values({c.dim}, bias, seed + 5);
  }

  GluWeights together(Ops& op, const MoeCase& c) const {
    return c.gated ? op.load_glu({gate, gate_bias}, {up, up_bias}, {down, down_bias}, c.act)
                   : op.load_mlp({up, up_bias}, {down, down_bias}, c.act);
  }
  GluWeights apart(Ops& op, const MoeCase& c) const {
    return {c.gated ? op.load_linear(gate, gate_bias) : Linear{},
            op.load_linear(up, up_bias),
            op.load_linear(down, down_bias),
            {},
            c.act};
  }

  /// What it makes of a row.
  std::vector<double> run(Precision p, const MoeCase& c, const double* x) const {
    const auto dot = [](const Values& m, const Values& bias, int64_t r, const double* v, int64_t n) {
      double s = bias.real.empty() ? 0.0 : bias.real[static_cast<size_t>(r)];
      for (int64_t i = 0; i < n; ++i) s += m.real[static_cast<size_t>(r * n + i)] * v[i];
      return s;
    };
    std::vector<double> hidden, y;
    for (int64_t f = 0; f < c.ffn; ++f) {
      const double g = round_to(p, dot(gate, gate_bias, f, x, c.dim)), u = round_to(p, dot(up, up_bias, f, x, c.dim));
      const double limited = std::min(g, 7.0);
      hidden.push_back(round_to(p, !c.gated ? act(c.act, u)
                                   : c.act == Activation::Clamped
                                       ? limited * sigmoid(1.702 * limited) * (std::clamp(u, -7.0, 7.0) + 1.0)
                                   : c.act == Activation::Capped
                                       ? std::min(round_to(p, act(Activation::Silu, g)), 7.0) * std::clamp(u, -7.0, 7.0)
                                       : round_to(p, act(c.act, g)) * u));
    }
    for (int64_t d = 0; d < c.dim; ++d) y.push_back(dot(down, down_bias, d, hidden.data(), c.ffn));
    return y;
  }
};

Values logits_of(const MoeCase& c, DType t) {
  Values logits = random_values({c.tokens, c.n_experts}, t, 2);
  if (!c.skewed) return logits;
  std::vector<double> skewed = logits.real;
  for (size_t i = 0; i < skewed.size(); i += static_cast<size_t>(c.n_experts)) {
    skewed[i + 1] += 2.5;
    skewed[i + static_cast<size_t>(c.n_experts) - 1] -= 20.0;
  }
  return values({c.tokens, c.n_experts}, t, skewed);
}

class MoeParity : public testing::TestWithParam<std::tuple<Precision, MoeCase>> {};

TEST_P(MoeParity, SumsWhatTheChosenExpertsGive) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const DType dtype = op->activation_dtype();
  const Values x = random_values({c.tokens, c.dim}, dtype, 1);
  std::vector<Host> host;
  std::vector<GluWeights> experts, apart;
  for (int64_t e = 0; e < c.n_experts; ++e) {
    host.emplace_back(c, dtype, e);
    experts.push_back(host.back().together(*op, c));
    apart.push_back(host.back().apart(*op, c));
  }
  const Routing routing = op->route(logits_of(c, dtype), {.k = c.k, .renormalize = c.renormalize});
  const Tensor y = op->experts(x, routing, experts);

  const Storage chosen = on_host(routing.experts);
  const std::vector<double> weights = read(routing.weights);
  std::vector<double> expected(x.real.size());
  for (int64_t t = 0; t < c.tokens; ++t)
    for (int64_t j = 0; j < c.k; ++j) {
      const auto e = static_cast<size_t>(chosen.tensor().as<int32_t>()[t * c.k + j]);
      const std::vector<double> result = host[e].run(precision, c, x.real.data() + t * c.dim);
      for (size_t d = 0; d < result.size(); ++d)
        expected[static_cast<size_t>(t * c.dim) + d] += weights[static_cast<size_t>(t * c.k + j)] * result[d];
    }
  // bf16: roundings of gate, up and hidden may differ by an ulp each where the sum lies between two values.
  const Tensor y_apart = op->experts(x, routing, apart);
  for (const Tensor& result : {y, y_apart})
    expect_close("experts", read(result), expected,
                 one_rounding(precision, precision == Precision::BF16 ? 4e-3 : 2e-6));
}

INSTANTIATE_TEST_SUITE_P(Cases, MoeParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kMoeCases)));

/// Few rows in a group and many take tiles of different heights on a device, and other instructions.
TEST(MoeParity, ExpertsIgnoreTheCompanyOfARow) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const MoeCase& c : {MoeCase{560, 328, 40, 2, 1, true}, MoeCase{90, 33, 17, 7, 3, true}}) {
      const auto op = backend(p);
      const Values x = random_values({c.tokens, c.dim}, op->activation_dtype(), 1);
      std::vector<GluWeights> experts;
      for (int64_t e = 0; e < c.n_experts; ++e) experts.push_back(Host(c, op->activation_dtype(), e).together(*op, c));
      const Routing all = op->route(logits_of(c, op->activation_dtype()), {.k = c.k});
      const Tensor up = op->upload(x), whole = op->experts(up, all, experts);
      for (const std::vector<int64_t>& rows : {std::vector<int64_t>{3}, {80, 2, 41, 7}, {5, 6, 7, 8, 89, 88, 30}}) {
        const Routing part{op->take_rows(all.experts, rows), op->take_rows(all.weights, rows)};
        EXPECT_TRUE(bytes_of(op->experts(op->take_rows(up, rows), part, experts)) ==
                    bytes_of(op->take_rows(whole, rows)));
      }
    }
}

}  // namespace
}  // namespace kvcal::test
