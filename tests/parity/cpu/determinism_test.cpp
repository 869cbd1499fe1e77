// Equal bytes: whatever the number of threads, the company of a row, the cuts of a sequence, and stale memory.
#include <cstdlib>
#include <functional>
#include <numeric>

#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

constexpr Precision kBoth[] = {Precision::F32, Precision::BF16};

/// Everything a hybrid layer does, at extents that cross the panels' edges; K is 3072 in one product.
std::string hybrid_layer(Ops& op, int64_t tokens) {
  const DType dtype = op.activation_dtype();
  const int64_t dim = 96, heads = 4, head_dim = 24, ffn = 3072;
  const Values x = random_values({tokens, dim}, dtype, 1), gain = random_values({dim}, DType::BF16, 2);
  const auto layer = [&](int64_t out, int64_t in, uint32_t seed) {
    return op.load_linear(random_values({out, in}, dtype, seed, Fill::Normal, 1.0 / std::sqrt(double(in))));
  };
  const Span spans[] = {{0, 70, 0}, {70, tokens - 70, 0}};
  KvRows kv[2];
  KvRows* const rows[] = {&kv[0], &kv[1]};
  ConvState conv[2];
  ConvState* const windows[] = {&conv[0], &conv[1]};
  DeltaState delta[2];
  DeltaState* const states[] = {&delta[0], &delta[1]};

  std::string all;
  const auto keep = [&](const Tensor& t) {
    all += bytes_of(t);
    return t;
  };
  const Tensor h = keep(op.rms_norm(x, op.load_gain(gain, Gain::Plain), 1e-6f));
  const auto split = [&](const Tensor& t, int64_t n) { return t.reshaped({tokens, n, head_dim}); };
  const Tensor q = split(keep(op.linear(h, layer(heads * head_dim, dim, 3))), heads);
  const Tensor k = split(keep(op.linear(h, layer(2 * head_dim, dim, 4))), 2);
  const Tensor v = split(keep(op.linear(h, layer(2 * head_dim, dim, 5))), 2);
  std::vector<int32_t> positions(static_cast<size_t>(tokens));
  std::iota(positions.begin(), positions.end(), 0);
  RopeSpec rope{16, {1, .5f, .25f, .1f, .05f, .02f, .01f, .001f}, 1.0f, false, {}};
  const Tensor table = keep(op.rope_table(positions, tokens, rope));
  Tensor y =
      keep(op.attention(keep(op.rope(q, table, rope)), keep(op.rope(k, table, rope)), v, spans, rows, {0.2f, 0}));
  y = keep(op.add(x, op.linear(y, layer(dim, dim, 6))));
  const Tensor c = keep(op.causal_conv(y, {op.load_f32(random_values({dim, 4}, DType::F32, 7))}, spans, windows));
  const Tensor ql = op.l2_norm(split(op.columns(c, 0, 48), 2), 1e-6f),
               kl = op.l2_norm(split(op.columns(c, 48, 48), 2), 1e-6f);
  const Tensor a = op.linear(y, layer(heads, dim, 8)), b = op.linear(y, layer(heads, dim, 9));
  const Ops::DeltaGates gates = op.delta_gates(a, b, op.load_f32(random_values({heads}, DType::F32, 10)),
                                               op.load_f32(random_values({heads}, DType::F32, 11)));
  const Tensor o = keep(op.gated_delta_rule(ql, kl, split(c, heads), gates, spans, states));
  keep(op.gated_rms_norm(o, split(c, heads),
                         {op.load_f32(random_values({head_dim}, DType::F32, 12)), 1e-6f, GateActivation::Silu}));
  const Tensor gate = op.linear(y, layer(ffn, dim, 13)), up = op.linear(y, layer(ffn, dim, 14));
  y = keep(op.linear(op.glu(gate, up), layer(dim, ffn, 15)));
  std::vector<GluWeights> experts;
  for (uint32_t e = 0; e < 6; ++e)
    experts.push_back({layer(40, dim, 20 + e), layer(40, dim, 30 + e), layer(dim, 40, 40 + e)});
  keep(op.experts(y, op.route(op.linear(y, layer(6, dim, 16)), {.k = 2, .renormalize = true}), experts));
  for (const DeltaState& s : delta) keep(s.s);
  for (const ConvState& s : conv) keep(s.window);
  return all;
}

TEST(Determinism, ThreadsRepetitionAndStaleMemoryAreInvisible) {
  for (const Precision p : kBoth) {
    const std::string expected = hybrid_layer(*cpu(p, 1, false), 300);
    for (const int threads : {1, 2, 3}) {
      const auto op = cpu(p, threads, true);
      for (int repeat = 0; repeat < 3; ++repeat) {
        EXPECT_TRUE(hybrid_layer(*op, 300) == expected) << threads << " threads, repeat " << repeat;
        op->end_batch();
      }
    }
  }
}

TEST(Determinism, TheEnvironmentOfOpenMpIsInvisible) {
  // The OpenMP runtime reads its environment when it is loaded, so each value needs a process of its own; the
  // threadsafe style starts this program anew, and the expected digest travels in the environment too.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr const char* kExpected = "KVCAL_TEST_EXPECTED_DIGEST";
  const auto digest = [] {
    return std::to_string(std::hash<std::string>{}(hybrid_layer(*cpu(Precision::BF16, 2), 300)));
  };
  if (!std::getenv(kExpected)) setenv(kExpected, digest().c_str(), 1);
  for (const char* n : {"1", "2", "7"}) {
    setenv("OMP_NUM_THREADS", n, 1);
    EXPECT_EXIT(
        std::exit(digest() == std::getenv(kExpected) && n == std::string(std::getenv("OMP_NUM_THREADS")) ? 0 : 1),
        testing::ExitedWithCode(0), "");
  }
  unsetenv("OMP_NUM_THREADS");
  unsetenv(kExpected);
}

/// rows in all sorts of company: alone, at the front and back of panels, permuted.
std::vector<std::vector<int64_t>> compositions(int64_t rows) {
  std::vector<int64_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::vector<int64_t>> c;
  for (const int64_t n : {int64_t{1}, int64_t{2}, int64_t{31}, int64_t{33}, int64_t{255}, int64_t{257}, rows - 1}) {
    c.emplace_back(all.begin(), all.begin() + n);
    c.emplace_back(all.end() - n, all.end());
  }
  std::mt19937 random(5);
  for (int i = 0; i < 3; ++i) {
    std::shuffle(all.begin(), all.end(), random);
    c.push_back(all);
    c.emplace_back(all.begin(), all.begin() + 100);
  }
  return c;
}

struct Shape2 {
  int64_t out, in;
};

TEST(Determinism, LinearIgnoresTheCompanyOfARow) {
  constexpr int64_t kRows = 560;
  for (const Precision p : kBoth)
    for (const Shape2 s : {Shape2{64, 64}, Shape2{130, 3072}, Shape2{33, 5000}, Shape2{1030, 70}, Shape2{1, 129},
                           Shape2{3, 8200}, Shape2{600, 1024}}) {
      const auto op = cpu(p);
      const Values x = random_values({kRows, s.in}, op->activation_dtype(), 1, Fill::Outliers);
      const Linear w = op->load_linear(random_values({s.out, s.in}, op->activation_dtype(), 2)),
                   f32 = op->load_linear_f32(random_values({s.out, s.in}, DType::F32, 2));
      const Tensor whole = op->linear(x, w), whole_f32 = op->linear_f32(x, f32);
      for (const auto& rows : compositions(kRows)) {
        const Tensor taken = op->take_rows(x, rows);
        const std::string what = std::to_string(s.out) + " x " + std::to_string(s.in) + ", " +
                                 std::to_string(rows.size()) + " rows from " + std::to_string(rows[0]);
        ASSERT_TRUE(bytes_of(op->linear(taken, w)) == bytes_of(op->take_rows(whole, rows))) << what;
        ASSERT_TRUE(bytes_of(op->linear_f32(taken, f32)) == bytes_of(op->take_rows(whole_f32, rows))) << what;
      }
    }
}

TEST(Determinism, RowOpsAndExpertsIgnoreTheCompanyOfARow) {
  constexpr int64_t kRows = 560, kDim = 70;
  for (const Precision p : kBoth) {
    const auto op = cpu(p, 3);
    const DType dtype = op->activation_dtype();
    const Values x = random_values({kRows, kDim}, dtype, 1), z = random_values({kRows, kDim}, dtype, 2);
    const Owned gain = op->load_gain(random_values({kDim}, DType::BF16, 3), Gain::OnePlus);
    // 336 rows for an expert: more than the largest panel.
    const Linear router = op->load_linear(random_values({5, kDim}, dtype, 4));
    std::vector<GluWeights> experts;
    for (uint32_t e = 0; e < 5; ++e)
      experts.push_back({op->load_linear(random_values({50, kDim}, dtype, 10 + e, Fill::Normal, 0.2)),
                         op->load_linear(random_values({50, kDim}, dtype, 20 + e, Fill::Normal, 0.2)),
                         op->load_linear(random_values({kDim, 50}, dtype, 30 + e, Fill::Normal, 0.2))});
    const std::vector<std::function<Tensor(const Tensor&, const Tensor&)>> ops = {
        [&](const Tensor& a, const Tensor&) { return op->rms_norm(a, gain, 1e-6f); },
        [&](const Tensor& a, const Tensor&) { return op->l2_norm(a, 1e-6f); },
        [&](const Tensor& a, const Tensor& b) { return op->add(a, b); },
        [&](const Tensor& a, const Tensor& b) { return op->match_rms(a, b, 0.01f); },
        [&](const Tensor& a, const Tensor&) { return op->keep_above(a, 0.5f); },
        [&](const Tensor& a, const Tensor& b) {
          return op->mix_streams(a.reshaped({a.dim(0), 7, 10}), op->columns(b, 0, 14));
        },
        [&](const Tensor& a, const Tensor& b) { return op->glu(a, b); },
        [&](const Tensor& a, const Tensor& b) { return op->sigmoid_mul(a, b); },
        [&](const Tensor& a, const Tensor&) {
          return op->experts(a, op->route(op->linear(a, router), {.k = 3, .renormalize = true}), experts);
        }};
    for (size_t i = 0; i < ops.size(); ++i) {
      const Tensor whole = ops[i](x, z);
      for (const auto& rows : compositions(kRows))
        ASSERT_TRUE(bytes_of(ops[i](op->take_rows(x, rows), op->take_rows(z, rows))) ==
                    bytes_of(op->take_rows(whole, rows)))
            << "op " << i << ", " << rows.size() << " rows";
    }
  }
}

TEST(Determinism, SampledAttentionIgnoresThreadsAndStaleMemory) {
  constexpr int64_t kRows = 333, kBefore = 101;
  for (const Precision p : kBoth)
    for (const int64_t heads : {4, 36}) {  // 36: a task has fewer positions
      const auto figures = [&](Ops& op) {
        const DType dtype = op.activation_dtype();
        const Values q = random_values({kRows, heads, 24}, dtype, 1), k = random_values({kRows, 2, 24}, dtype, 2),
                     v = random_values({kRows, 2, 16}, dtype, 3, Fill::Outliers),
                     norms = random_values({heads, 16}, DType::F32, 4);
        std::vector<int32_t> rows(kRows);
        std::iota(rows.begin(), rows.end(), 0);
        const Span spans[] = {{0, kBefore, 0}, {kBefore, kRows - kBefore, 0}};
        const KvRows* const none[] = {nullptr, nullptr};
        const AttentionSample sample = op.sample_attention(q, k, v, spans, none, {0.3f}, {rows, norms});
        return bytes_of(sample.rungs) + bytes_of(sample.figures);
      };
      const std::string expected = figures(*cpu(p, 1, false));
      for (const int threads : {1, 2, 3}) {
        const auto op = cpu(p, threads, true);
        for (int repeat = 0; repeat < 2; ++repeat) {
          EXPECT_TRUE(figures(*op) == expected) << threads << " threads, repeat " << repeat;
          op->end_batch();
        }
      }
    }
}

// ---------------------------------------------------------------- sequences

/// Attention, convolution and delta rule over one sequence, cut at the given positions, between rows of two other
/// sequences in the same batch.
struct SequenceRun {
  std::string bytes;
  std::vector<double> attention, conv, delta;
};

constexpr int64_t kTokens = 700, kHeads = 4, kKvHeads = 2;
constexpr int64_t kDims[] = {16, 32};  // of a head: with 32, attention's products fill whole tiles where there are some

SequenceRun run_sequence(Ops& op, const std::vector<int64_t>& cuts, int64_t window, int64_t neighbour, int64_t dim) {
  const DType dtype = op.activation_dtype();
  const auto heads = [&](int64_t n, uint32_t seed) { return random_values({kTokens + 128, n, dim}, dtype, seed); };
  const Values q = heads(kHeads, 1), k = heads(kKvHeads, 2), v = heads(kKvHeads, 3), v4 = heads(kHeads, 4);
  const Values g0 = random_values({kTokens + 128, kHeads}, DType::F32, 5),
               b0 = random_values({kTokens + 128, kHeads}, DType::F32, 6);
  std::vector<double> g = g0.real, beta = b0.real;
  for (double& x : g) x = -0.1 * std::fabs(x);
  for (double& x : beta) x = sigmoid(x);
  const Values gv = values({kTokens + 128, kHeads}, DType::F32, g),
               bv = values({kTokens + 128, kHeads}, DType::F32, beta);
  const Values w = random_values({kHeads * dim, 4}, DType::F32, 7);

  KvRows kv;
  kv.max_tokens = 100;  // too small on purpose: it must grow
  ConvState conv;
  DeltaState delta;
  SequenceRun run;
  std::string bytes[3];
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    // Rows of the batch: `neighbour` rows of another sequence, this sequence's, 5 rows of a third one.
    const int64_t n = cuts[c + 1] - cuts[c];
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < neighbour; ++i) rows.push_back(kTokens + i);
    for (int64_t i = cuts[c]; i < cuts[c + 1]; ++i) rows.push_back(i);
    for (int64_t i = 0; i < 5; ++i) rows.push_back(kTokens + 100 + i);
    const Span spans[] = {{0, neighbour, 0}, {neighbour, n, cuts[c]}, {neighbour + n, 5, 0}};
    KvRows other_kv;
    ConvState other_conv;
    DeltaState other_delta;
    KvRows* const kvs[] = {&other_kv, &kv, nullptr};
    ConvState* const convs[] = {&other_conv, &conv, nullptr};
    DeltaState* const deltas[] = {&other_delta, &delta, nullptr};
    const auto take = [&](const Values& x) { return op.take_rows(x, rows); };
    const Tensor ql = op.l2_norm(take(k), 1e-6f), kl = op.l2_norm(take(v), 1e-6f);
    const Tensor results[] = {op.attention(take(q), take(k), take(v), spans, kvs, {0.3f, window}),
                              op.causal_conv(take(v4).reshaped({n + neighbour + 5, kHeads * dim}), {w}, spans, convs),
                              op.gated_delta_rule(ql, kl, take(v4), {take(gv), take(bv)}, spans, deltas)};
    std::vector<double>* const reals[] = {&run.attention, &run.conv, &run.delta};
    for (size_t i = 0; i < 3; ++i) {
      const Tensor mine = results[i].rows(neighbour, n);
      bytes[i] += bytes_of(mine);
      const std::vector<double> x = read(mine);
      reals[i]->insert(reals[i]->end(), x.begin(), x.end());
    }
    op.end_batch();
  }
  run.bytes = bytes[0] + bytes[1] + bytes[2] + bytes_of(delta.s) + bytes_of(conv.window);
  return run;
}

TEST(Determinism, AlignedCutsAndNeighboursAreInvisible) {
  for (const Precision p : kBoth)
    for (const int64_t dim : kDims)
      for (const int64_t window : {0, 63, 100}) {
        const SequenceRun whole = run_sequence(*cpu(p, 1), {0, kTokens}, window, 0, dim);
        for (const std::vector<int64_t>& cuts : std::vector<std::vector<int64_t>>{
                 {0, 256, 512, kTokens}, {0, 512, kTokens}, {0, 256, kTokens}, {0, kTokens}})
          for (const int64_t neighbour : {1, 64})
            EXPECT_TRUE(run_sequence(*cpu(p, 3), cuts, window, neighbour, dim).bytes == whole.bytes)
                << cuts.size() - 1 << " chunks, window " << window << ", after " << neighbour << " rows of another, "
                << dim << " wide";
      }
}

TEST(Determinism, BlocksLieAtAbsolutePositions) {
  // After an unaligned cut the next one at a block's edge changes nothing: blocks do not start at the cut.
  for (const Precision p : kBoth)
    for (const int64_t dim : kDims)
      EXPECT_TRUE(run_sequence(*cpu(p), {0, 61, kTokens}, 0, 1, dim).bytes ==
                  run_sequence(*cpu(p), {0, 61, 256, 320, kTokens}, 0, 1, dim).bytes);
}

TEST(Determinism, UnalignedCutsAndSingleTokensStayWithinTheTolerance) {
  for (const Precision p : kBoth)
    for (const auto& [window, dim] : {std::pair{0, kDims[0]}, {0, kDims[1]}, {100, kDims[1]}}) {
      const SequenceRun whole = run_sequence(*cpu(p), {0, kTokens}, window, 0, dim);
      std::vector<int64_t> one_by_one = {0, 61};
      while (one_by_one.back() < 140) one_by_one.push_back(one_by_one.back() + 1);
      one_by_one.push_back(333);
      one_by_one.push_back(kTokens);
      const SequenceRun cut = run_sequence(*cpu(p), one_by_one, window, 3, dim);
      // The design's bound for unaligned cuts: relative RMS 1e-4 in f32, 2e-2 in bf16.
      const auto relative_rms = [](const std::vector<double>& a, const std::vector<double>& b) {
        double error = 0.0, size = 0.0;
        for (size_t i = 0; i < a.size(); ++i) {
          error += (a[i] - b[i]) * (a[i] - b[i]);
          size += b[i] * b[i];
        }
        return std::sqrt(error / size);
      };
      const double bound = p == Precision::F32 ? 1e-4 : 2e-2;
      EXPECT_LE(relative_rms(cut.delta, whole.delta), bound);
      EXPECT_TRUE(cut.conv == whole.conv);                              // the same sum, wherever the cut
      EXPECT_TRUE(cut.attention == whole.attention) << dim << " wide";  // its key blocks do not start at the cut
    }
}

}  // namespace
}  // namespace kvcal::test
