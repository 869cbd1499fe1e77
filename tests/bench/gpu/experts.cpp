// P7, P8: a mixture of experts against one dense product of as many operations, and against a loop of dense products.
#include <cmath>
#include <random>

#include "bench/gpu/bench.h"

namespace kvcal::bench {
namespace {

/// Qwen3.5-35B-A3B: 256 experts, 8 a token, 2048 x 512; a chunk of 128 k tokens.
struct MoeSizes {
  int64_t tokens, dim, ffn, n_experts, k;
  double flops() const { return 2.0 * static_cast<double>(tokens * k) * 3.0 * static_cast<double>(dim * ffn); }
};
MoeSizes moe_sizes(const Options& o) {
  return o.toy ? MoeSizes{40, 32, 16, 4, 2} : MoeSizes{131072, 2048, 512, 256, 8};
}

Linear random_linear(Ops& op, int64_t out, int64_t in, uint32_t seed) {
  const Storage w({out, in}, DType::BF16);
  std::minstd_rand random(seed);
  for (int64_t i = 0; i < out * in; ++i)
    w.tensor().as<bf16>()[i] = to_bf16(static_cast<float>(random() % 2001) * 1e-4f - 0.0999f);
  return op.load_linear(w.tensor());
}

std::vector<GluWeights> random_experts(Ops& op, const MoeSizes& m) {
  std::vector<GluWeights> experts;
  for (int64_t e = 0; e < m.n_experts; ++e) {
    const auto seed = static_cast<uint32_t>(3 * e + 1);
    experts.push_back({random_linear(op, m.ffn, m.dim, seed), random_linear(op, m.ffn, m.dim, seed + 1),
                       random_linear(op, m.dim, m.ffn, seed + 2)});
  }
  return experts;
}

/// As a router gives them [tokens, n_experts]; skewed: those of expert e fall with log(e), so that loads follow Zipf's
/// law.
Owned random_logits(Ops& op, const MoeSizes& m, bool skewed) {
  const Storage made({m.tokens, m.n_experts}, DType::BF16);
  std::minstd_rand random(5);
  for (int64_t i = 0; i < m.tokens * m.n_experts; ++i) {
    const float bias = skewed ? -std::log(static_cast<float>(i % m.n_experts + 1)) : 0.0f;
    made.tensor().as<bf16>()[i] = to_bf16(bias + static_cast<float>(random() % 4001) * 1e-3f - 2.0f);
  }
  return on_device(op, made.tensor());
}

/// Seconds of the experts alone: routing is measured and taken away.
Values seconds_of_experts(const Options& o, Ops& op, const Tensor& x, const Tensor& logits, const MoeSizes& m,
                          const std::vector<GluWeights>& experts) {
  const RoutingSpec spec{.k = m.k, .renormalize = true};
  Values both = rounds_of(o, [&] {
    op.experts(x, op.route(logits, spec), experts);
    op.end_batch();
  });
  const Values routing = rounds_of(o, [&] {
    op.route(logits, spec);
    op.end_batch();
  });
  for (size_t i = 0; i < both.size(); ++i) both[i] -= routing[i];
  return both;
}

Values quotients(const Values& a, const Values& b) {
  Values q;
  for (size_t i = 0; i < a.size(); ++i) q.push_back(a[i] / b[i]);
  return q;
}

/// The same work as one product for each expert's matrices, rows already gathered and equally many.
Values seconds_of_loop(const Options& o, Ops& op, const MoeSizes& m, const std::vector<GluWeights>& experts) {
  const int64_t rows = m.tokens * m.k / m.n_experts;
  const Owned x = random_tensor(op, {rows, m.dim}, 11);
  return rounds_of(o, [&] {
    for (const GluWeights& expert : experts) op.glu_mlp(x, expert);
    op.end_batch();
  });
}

}  // namespace

void bench_experts(const Options& o) {
  const MoeSizes m = moe_sizes(o);
  const auto op = make_ops();
  const Owned x = random_tensor(*op, {m.tokens, m.dim}, 1);
  const std::vector<GluWeights> experts = random_experts(*op, m);
  const int64_t side = o.toy ? 32 : 8192;  // of a large dense product
  const Owned dense_x = random_tensor(*op, {side, side}, 7);
  const Linear dense = random_linear(*op, side, side, 9);
  const double dense_flops = 2.0 * std::pow(static_cast<double>(side), 3);
  for (const bool skewed : {false, true}) {
    const Owned logits = random_logits(*op, m, skewed);
    const Values of_experts = seconds_of_experts(o, *op, x, logits, m, experts);
    Values of_dense = rounds_of(o, [&] {
      op->linear(dense_x, dense);
      op->end_batch();
    });
    for (double& s : of_dense) s *= m.flops() / dense_flops;
    const std::string name = skewed ? "experts, skewed" : "experts, balanced";
    print("P7", name, "times a dense product", quotients(of_experts, of_dense),
          {{"seconds", of_experts}, {"dense_seconds_of_equal_flops", of_dense}});
    if (skewed) continue;
    const Values of_loop = seconds_of_loop(o, *op, m, experts);
    print("P8", name, "times a loop of dense products", quotients(of_experts, of_loop),
          {{"seconds", of_experts}, {"loop_seconds", of_loop}});
  }
}

}  // namespace kvcal::bench
