// Routing against its definition in double, and against the CPU's choices.
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

struct RoutingCase {
  int64_t tokens, n_experts, k;
  Scoring scoring;
  bool renormalize;
  float least_sum = 0.0f, scale = 1.0f;
  bool biased = false;
  int64_t n_groups = 1, k_groups = 1, group_best = 2;
  float jitter = 0.0f;
};
constexpr Scoring kSoftmax = Scoring::Softmax, kSigmoid = Scoring::Sigmoid, kNearBest = Scoring::NearBest;
constexpr RoutingCase kRoutingCases[] = {
    {1, 1, 1, kSoftmax, true},
    {5, 31, 3, kSoftmax, false, 0.0f, 2.5f},
    {5, 33, 33, kSoftmax, true},
    {70, 32, 4, kSigmoid, true, 1e-20f, 2.5f},
    {9, 64, 6, kSigmoid, false, 0.0f, 1.0f, true},
    {9, 40, 3, kSoftmax, true, 0.9f, 1.5f},  // sums below and above the least one
    {33, 64, 8, kSigmoid, true, 0.0f, 2.5f, true, 8, 4, 2},
    {7, 36, 4, kSigmoid, true, 0.0f, 1.0f, true, 6, 2, 1},
    {7, 120, 5, kSoftmax, false, 0.0f, 16.0f, false, 40, 33, 1},
    {6, 20, 10, kSigmoid, true, 0.0f, 1.0f, true, 4, 2, 5},  // all of the groups kept
    {3, 256, 8, kSigmoid, true, 1e-20f, 2.5f, true, 8, 4, 2},
    {0, 8, 2, kSigmoid, true, 0.0f, 1.0f, true, 2, 1, 2},
    {70, 16, 2, kNearBest, false, 0.0f, 1.0f, false, 1, 1, 2, 0.01f},
    {70, 37, 2, kNearBest, false, 0.0f, 1.0f, false, 1, 1, 2, 0.2f},  // several near the best
    {9, 5, 5, kNearBest, false, 0.0f, 1.0f, false, 1, 1, 2, 0.4f},    // the last best ones are negative
};
void PrintTo(const RoutingCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.n_experts, c.k, c.n_groups, c.k_groups, c.group_best})
       << (c.scoring == kSigmoid   ? " sigmoid"
           : c.scoring == kSoftmax ? " softmax"
                                   : " near best")
       << (c.biased ? " biased" : "");
}

/// Indexes of the n largest of x, best first, ties to the lower one.
std::vector<size_t> largest(const std::vector<double>& x, int64_t n) {
  std::vector<size_t> order(x.size());
  for (size_t i = 0; i < x.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] > x[b]; });
  order.resize(static_cast<size_t>(n));
  return order;
}

std::vector<double> scores_of(const RoutingCase& c, const double* logits) {
  std::vector<double> score;
  double total = 0.0;
  for (int64_t e = 0; e < c.n_experts; ++e) total += std::exp(logits[e]);
  for (int64_t e = 0; e < c.n_experts; ++e)
    score.push_back(c.scoring == kSigmoid   ? sigmoid(logits[e])
                    : c.scoring == kSoftmax ? std::exp(logits[e]) / total
                                            : logits[e]);
  return score;
}

/// The weights of the chosen, best first, each beside those behind it that are near, which roundings to the type
/// decide.
std::vector<double> shares_of_best(const RoutingCase& c, const std::vector<double>& score, DType dtype) {
  const auto rounded = [&](double x) {
    return dtype == DType::BF16 ? double{round_to_bf16(static_cast<float>(x))} : double{static_cast<float>(x)};
  };
  std::vector<double> shares;
  const std::vector<size_t> ranked = largest(score, c.n_experts);
  for (size_t j = 0; j < static_cast<size_t>(c.k); ++j) {
    double sum = 0.0;
    const double best = score[ranked[j]];
    for (size_t i = j; i < ranked.size(); ++i) {
      const double x = score[ranked[i]];
      const double distance = rounded(rounded(best - x) / std::max(std::abs(x), best));
      if (distance <= rounded(2.0 * double{c.jitter}) || x == best) sum += std::exp(x - best);
    }
    shares.push_back(1.0 / sum);
  }
  return shares;
}

std::vector<size_t> choice_of(const RoutingCase& c, const std::vector<double>& score, const Values& bias) {
  std::vector<double> biased = score;
  for (size_t e = 0; e < biased.size(); ++e)
    if (c.biased) biased[e] += bias.real[e];
  const auto size = static_cast<ptrdiff_t>(c.n_experts / c.n_groups);
  std::vector<double> rank;
  for (ptrdiff_t g = 0; g < c.n_groups; ++g) {
    std::vector<double> members(biased.begin() + g * size, biased.begin() + (g + 1) * size);
    std::sort(members.rbegin(), members.rend());
    rank.push_back(0.0);
    for (int64_t j = 0; j < std::min<int64_t>(c.group_best, size); ++j) rank.back() += members[static_cast<size_t>(j)];
  }
  const std::vector<size_t> kept = largest(rank, c.k_groups);
  for (size_t e = 0; e < biased.size(); ++e)
    if (std::find(kept.begin(), kept.end(), e / static_cast<size_t>(size)) == kept.end()) biased[e] = -1e300;
  return largest(biased, c.k);
}

class RoutingParity : public testing::TestWithParam<std::tuple<Precision, RoutingCase>> {};

void expect_choices(Precision precision, const RoutingCase& c, DType dtype) {
  const auto op = backend(precision), reference = cpu(precision);
  const Values logits = random_values({c.tokens, c.n_experts}, dtype, 2);
  const Values bias = random_values({c.n_experts}, DType::F32, 3, Fill::Normal, 0.3);
  const RoutingSpec spec{.k = c.k,
                         .scoring = c.scoring,
                         .jitter = c.jitter,
                         .renormalize = c.renormalize,
                         .least_sum = c.least_sum,
                         .scale = c.scale,
                         .bias = c.biased ? bias.tensor() : Tensor{},
                         .n_groups = c.n_groups,
                         .k_groups = c.k_groups,
                         .group_best = c.group_best};
  const Routing routing = op->route(logits, spec), theirs = reference->route(logits, spec);
  EXPECT_TRUE(bytes_of(routing.experts) == bytes_of(theirs.experts));

  const Storage chosen = on_host(routing.experts);
  std::vector<double> weights;
  for (int64_t t = 0; t < c.tokens; ++t) {
    const std::vector<double> score = scores_of(c, logits.real.data() + t * c.n_experts);
    const std::vector<size_t> order = choice_of(c, score, bias);
    const std::vector<double> shares = shares_of_best(c, score, dtype);
    double total = 0.0;
    for (const size_t e : order) total += score[e];
    for (size_t j = 0; j < order.size(); ++j) {
      ASSERT_EQ(chosen.tensor().as<int32_t>()[t * c.k + static_cast<int64_t>(j)], static_cast<int32_t>(order[j]))
          << "token " << t << ", choice " << j;
      const double divisor = c.renormalize ? std::max(total, double{c.least_sum}) : 1.0;
      const double weight = c.scoring == kNearBest ? shares[j] : score[order[j]];
      weights.push_back(weight / divisor * double{c.scale});
    }
  }
  expect_close("weights", read(routing.weights), weights, {2e-6, 0});
  expect_close("the CPU's weights", read(routing.weights), read(theirs.weights), {2e-6, 0});
}

TEST_P(RoutingParity, ChoosesAndWeighs) {
  const auto& [precision, c] = GetParam();
  expect_choices(precision, c, precision == Precision::BF16 ? DType::BF16 : DType::F32);
  if (precision == Precision::BF16) expect_choices(precision, c, DType::F32);
}

INSTANTIATE_TEST_SUITE_P(Cases, RoutingParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kRoutingCases)));

std::vector<int32_t> chosen_by(Ops& op, const Values& logits, const RoutingSpec& spec) {
  const Storage experts = on_host(op.route(logits, spec).experts);
  const auto* e = experts.tensor().as<int32_t>();
  return {e, e + experts.tensor().elements()};
}

TEST(RoutingParity, TiesGoToTheLowerIndex) {
  const auto op = backend(Precision::F32);
  const Values logits = values({2, 6}, DType::F32, {1, 2, 2, 0, 2, 1, 0, 0, 0, 0, 0, 0});
  for (const Scoring scoring : {kSoftmax, kSigmoid})
    EXPECT_EQ(chosen_by(*op, logits, {.k = 4, .scoring = scoring}), (std::vector<int32_t>{1, 2, 4, 0, 0, 1, 2, 3}));
  // Groups too: both hold the same scores.
  const Values equal = values({1, 6}, DType::F32, {0, 2, 1, 2, 1, 0});
  EXPECT_EQ(chosen_by(*op, equal, {.k = 2, .scoring = kSigmoid, .n_groups = 2}), (std::vector<int32_t>{1, 2}));
}

TEST(RoutingParity, TheBiasChoosesAndDoesNotWeigh) {
  const auto op = backend(Precision::F32);
  const Values logits = values({1, 3}, DType::F32, {2, 1, 0}), bias = values({3}, DType::F32, {-5, -5, 5});
  const Routing r = op->route(logits, {.k = 1, .scoring = kSigmoid, .bias = bias});
  EXPECT_EQ(on_host(r.experts).tensor().as<int32_t>()[0], 2);
  expect_close("weight", read(r.weights), {0.5}, {1e-6, 0});
}

TEST(RoutingParity, NanLogitsGiveNanWeightsAndValidExperts) {
  const auto op = backend(Precision::F32);
  const Values logits = values({1, 4}, DType::F32, {1, std::nan(""), 2, 0});
  const Routing r = op->route(logits, {.k = 2, .renormalize = false});
  const Storage experts = on_host(r.experts), weights = on_host(r.weights);
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_TRUE(std::isnan(weights.tensor().as<float>()[j]));
    EXPECT_LT(experts.tensor().as<int32_t>()[j], 4);
  }
  for (const int32_t e : chosen_by(*op, logits, {.k = 4, .scoring = kSigmoid, .n_groups = 2, .k_groups = 2}))
    EXPECT_TRUE(e >= 0 && e < 4) << e;
}

}  // namespace
}  // namespace kvcal::test
