// Routing and experts against their definitions in double.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

class MoeParity : public testing::TestWithParam<std::tuple<Precision, MoeCase>> {};

TEST_P(MoeParity, RoutesAndSums) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const DType dtype = op->activation_dtype();
  const Values x = random_values({c.tokens, c.dim}, dtype, 1);
  Values logits = random_values({c.tokens, c.n_experts}, dtype, 2);
  if (c.skewed) {
    for (size_t i = 0; i < logits.real.size(); i += static_cast<size_t>(c.n_experts)) {
      logits.real[i + 1] += 2.5;
      logits.real[i + static_cast<size_t>(c.n_experts) - 1] -= 20.0;
    }
    logits = values({c.tokens, c.n_experts}, dtype, logits.real);
  }
  struct Host {
    Values gate, up, down;
  };
  std::vector<Host> host;
  std::vector<GluWeights> experts, apart;
  for (int64_t e = 0; e < c.n_experts; ++e) {
    const auto seed = static_cast<uint32_t>(10 * e + 3);
    host.push_back({random_values({c.ffn, c.dim}, dtype, seed, Fill::Normal, 0.2),
                    random_values({c.ffn, c.dim}, dtype, seed + 1, Fill::Normal, 0.2),
                    random_values({c.dim, c.ffn}, dtype, seed + 2, Fill::Normal, 0.2)});
    const Host& h = host.back();
    experts.push_back(op->load_glu({h.gate, {}}, {h.up, {}}, {h.down, {}}));
    apart.push_back({op->load_linear(h.gate), op->load_linear(h.up), op->load_linear(h.down)});
  }
  const Routing routing = op->route(logits, {.k = c.k, .renormalize = c.renormalize});
  const Tensor y = op->experts(x, routing, experts);

  const Storage chosen = on_host(routing.experts);
  std::vector<double> expected, weights;
  for (int64_t t = 0; t < c.tokens; ++t) {
    std::vector<double> p;
    double total = 0.0;
    for (int64_t e = 0; e < c.n_experts; ++e)
      total += p.emplace_back(std::exp(logits.real[static_cast<size_t>(t * c.n_experts + e)]));
    std::vector<int64_t> order(p.size());
    for (size_t e = 0; e < p.size(); ++e) order[e] = static_cast<int64_t>(e);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return p[static_cast<size_t>(a)] > p[static_cast<size_t>(b)]; });
    order.resize(static_cast<size_t>(c.k));
    double kept = 0.0;
    for (const int64_t e : order) kept += p[static_cast<size_t>(e)];
    std::vector<double> row(static_cast<size_t>(c.dim), 0.0);
    for (int64_t j = 0; j < c.k; ++j) {
      const int64_t e = order[static_cast<size_t>(j)];
      ASSERT_EQ(chosen.tensor().as<int32_t>()[t * c.k + j], e) << "token " << t;
      const double w = p[static_cast<size_t>(e)] / (c.renormalize ? kept : total);
      weights.push_back(w);
      const Host& h = host[static_cast<size_t>(e)];
      std::vector<double> hidden;
      const auto dot = [](const Values& m, int64_t r, const double* v, int64_t n) {
        double s = 0.0;
        for (int64_t i = 0; i < n; ++i) s += m.real[static_cast<size_t>(r * n + i)] * v[i];
        return s;
      };
      for (int64_t f = 0; f < c.ffn; ++f) {
        const double* in = x.real.data() + t * c.dim;
        const double g = round_to(precision, dot(h.gate, f, in, c.dim)),
                     u = round_to(precision, dot(h.up, f, in, c.dim));
        hidden.push_back(round_to(precision, round_to(precision, g * sigmoid(g)) * u));
      }
      for (int64_t d = 0; d < c.dim; ++d) row[static_cast<size_t>(d)] += w * dot(h.down, d, hidden.data(), c.ffn);
    }
    expected.insert(expected.end(), row.begin(), row.end());
  }
  expect_close("weights", read(routing.weights), weights, {1e-6, 1e-6});
  // bf16: roundings of gate, up and hidden may differ by an ulp each where the sum lies between two values.
  const Tensor y_apart = op->experts(x, routing, apart);
  for (const Tensor& result : {y, y_apart})
    expect_close("experts", read(result), expected,
                 one_rounding(precision, precision == Precision::BF16 ? 4e-3 : 2e-6));
}

INSTANTIATE_TEST_SUITE_P(Cases, MoeParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kMoeCases)));

}  // namespace
}  // namespace kvcal::test
