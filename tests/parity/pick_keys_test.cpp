// pick_keys against scores in double, all of them sorted; continued sequences; ties; what it refuses.
#include "harness/message_of.h"
#include "parity/ops_cases.h"
#include "parity/picked_keys.h"

namespace kvcal::test {
namespace {

struct PickCase {
  int64_t tokens, heads, dim, n_picked;
  bool weighted = true;
  int64_t block = 1, n_local = 0;
  Fill fill = Fill::Normal;
};
constexpr PickCase kPickCases[] = {
    {1, 1, 8, 1},
    {70, 3, 12, 16},
    {130, 64, 128, 20},
    {100, 70, 40, 33},
    {200, 130, 24, 7},
    {300, 2, 33, 64},
    {300, 1, 16, 299},
    {90, 5, 20, 1},
    {90, 3, 16, 500},
    {150, 4, 64, 30, false},
    {200, 2, 24, 5, false, 16, 1},
    {333, 4, 16, 3, false, 32, 2},
    {300, 3, 16, 2, true, 100},
    {260, 70, 16, 4, false, 64, 1},
    {120, 2, 16, 10, true, 1, 4},
    {130, 3, 24, 9, true, 1, 0, Fill::Zeros},
    {140, 3, 136, 12},
    {200, 4, 64, 3, false, 16, 1},
    {0, 2, 8, 4},
};
void PrintTo(const PickCase& c, std::ostream* out) {
  *out << numbers({c.tokens, c.heads, c.dim, c.n_picked, c.block, c.n_local}) << (c.weighted ? " weighted" : "");
}

struct Inputs {
  Values q, weights, k;
  Inputs(const PickCase& c, DType t)
      : q(random_values({c.tokens, c.heads, c.dim}, t, 1)),
        weights(random_values({c.tokens, c.heads}, t, 2)),
        k(random_values({c.tokens, 1, c.dim}, t, 3, c.fill)) {}
};

int64_t pickers_of(const PickCase& c) { return c.weighted ? 1 : c.heads; }
PickSpec spec_of(const PickCase& c) { return {c.n_picked, c.block, c.n_local}; }

double dot_of(const PickCase& c, const Inputs& in, int64_t row, int64_t head, int64_t key) {
  double dot = 0;
  for (int64_t d = 0; d < c.dim; ++d)
    dot += in.q.real[static_cast<size_t>((row * c.heads + head) * c.dim + d)] *
           in.k.real[static_cast<size_t>(key * c.dim + d)];
  return dot;
}

/// Of keys 0 .. row.
std::vector<double> scores_of(const PickCase& c, const Inputs& in, int64_t row, int64_t picker) {
  std::vector<double> scores;
  for (int64_t key = 0; key <= row; ++key) {
    double score = 0;
    for (int64_t h = 0; h < c.heads && c.weighted; ++h)
      score += in.weights.real[static_cast<size_t>(row * c.heads + h)] * std::max(0.0, dot_of(c, in, row, h, key));
    scores.push_back(c.weighted ? score : dot_of(c, in, row, picker, key));
  }
  return scores;
}

/// Which keys are picked, and which could as well, being as good as the last one that is within what f32 loses.
struct Expected {
  std::vector<bool> picked, doubtful;
};
Expected expected(const PickCase& c, const std::vector<double>& scores) {
  const auto block = static_cast<size_t>(c.block), n = (scores.size() + block - 1) / block;
  std::vector<double> units(n, -std::numeric_limits<double>::infinity());
  double top = 0;
  for (size_t j = 0; j < scores.size(); ++j) {
    units[j / block] = std::max(units[j / block], scores[j]);
    top = std::max(top, std::fabs(scores[j]));
  }
  for (size_t u = n - std::min(n, static_cast<size_t>(c.n_local)); u < n; ++u)
    units[u] = std::numeric_limits<double>::infinity();
  std::vector<size_t> order(n);
  for (size_t u = 0; u < n; ++u) order[u] = u;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return units[a] > units[b]; });
  std::vector<bool> chosen(n), near(n);
  const size_t n_chosen = std::min(n, static_cast<size_t>(c.n_picked));
  for (size_t i = 0; i < n_chosen; ++i) chosen[order[i]] = true;
  for (size_t u = 0; u < n && n_chosen < n; ++u) {
    const double last = units[order[n_chosen - 1]], next = units[order[n_chosen]];
    if (last == next) continue;  // zeros, of which all are: then the first ones count
    near[u] = std::min(std::fabs(units[u] - last), std::fabs(units[u] - next)) < 3e-6 * top && last - next < 3e-6 * top;
  }
  Expected e;
  for (size_t j = 0; j < scores.size(); ++j) {
    e.picked.push_back(chosen[j / block]);
    e.doubtful.push_back(near[j / block]);
  }
  return e;
}

class PickParity : public testing::TestWithParam<std::tuple<Precision, PickCase>> {};

TEST_P(PickParity, EqualsTheBestOfAllScores) {
  const auto& [precision, c] = GetParam();
  const auto op = backend(precision);
  const Inputs in(c, op->activation_dtype());
  const Span span{0, c.tokens, 0};
  const KvRows* const none[] = {nullptr};
  const Owned picked =
      op->pick_keys(in.q, c.weighted ? in.weights.tensor() : Tensor{}, in.k, {&span, 1}, none, spec_of(c));
  const int64_t n_words = (c.tokens + 63) / 64, pickers = pickers_of(c);
  ASSERT_EQ(picked.view.shape, (Shape{c.tokens, pickers, n_words}));
  const Storage words = on_host(picked.view);
  int64_t doubtful = 0;
  for (int64_t row = 0; row < c.tokens; ++row)
    for (int64_t picker = 0; picker < pickers; ++picker) {
      const Expected e = expected(c, scores_of(c, in, row, picker));
      for (int64_t key = 0; key < n_words * 64; ++key) {
        const uint64_t word = words.tensor().as<uint64_t>()[(row * pickers + picker) * n_words + key / 64];
        const bool has = (word >> (key % 64) & 1) != 0;
        if (key <= row && e.doubtful[static_cast<size_t>(key)]) {
          ++doubtful;
          continue;
        }
        ASSERT_EQ(has, key <= row && e.picked[static_cast<size_t>(key)])
            << "row " << row << ", picker " << picker << ", key " << key;
      }
    }
  EXPECT_LE(doubtful, c.tokens * c.tokens * pickers / 1000);
}

INSTANTIATE_TEST_SUITE_P(Cases, PickParity,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kPickCases)));

// Beside another sequence, cut anywhere: the same keys.
TEST(PickKeys, DoNotDependOnTheBatch) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const PickCase& c : {PickCase{200, 3, 24, 12}, PickCase{200, 2, 24, 3, false, 16, 1}}) {
      const auto op = backend(p);
      const Inputs in(c, op->activation_dtype());
      const Tensor weights = c.weighted ? in.weights.tensor() : Tensor{};
      const auto part = [&](const Tensor& t, int64_t row, int64_t n) { return t ? t.rows(row, n) : t; };
      const int64_t pickers = pickers_of(c);
      const Span whole{0, c.tokens, 0};
      const KvRows* const none[] = {nullptr, nullptr};
      const Owned all = op->pick_keys(in.q, weights, in.k, {&whole, 1}, std::span(none).first(1), spec_of(c));
      const Storage expected = on_host(all.view);
      KvRows kept;
      for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 70}, {70, 71}, {71, 200}}) {
        const int64_t n = end - first;
        const Span span{0, n, first};
        KvRows* const rows[] = {&kept};
        const Tensor k = in.k.tensor().rows(first, n);
        op->keep_rows(k, {}, {&span, 1}, rows);
        const KvRows* const read[] = {&kept};
        const Owned picked =
            op->pick_keys(part(in.q, first, n), part(weights, first, n), k, {&span, 1}, read, spec_of(c));
        const Storage words = on_host(picked.view);
        const int64_t n_words = words.tensor().dim(2);
        for (int64_t i = 0; i < n * pickers; ++i)
          for (int64_t w = 0; w < 4; ++w)
            ASSERT_EQ(w < n_words ? words.tensor().as<uint64_t>()[i * n_words + w] : 0,
                      expected.tensor().as<uint64_t>()[(first * pickers + i) * 4 + w])
                << "row " << first + i / pickers << ", word " << w;
      }
      // Its last 60 rows as a sequence of their own, behind the first 50.
      const Span spans[] = {{0, 50, 0}, {50, 10, 0}};
      const Owned two =
          op->pick_keys(part(in.q, 0, 60), part(weights, 0, 60), part(in.k, 0, 60), spans, none, spec_of(c));
      const Storage words = on_host(two.view);
      for (int64_t i = 0; i < 50 * pickers; ++i)
        ASSERT_EQ(words.tensor().as<uint64_t>()[i], expected.tensor().as<uint64_t>()[i * 4]) << "row " << i / pickers;
      for (int64_t i = 50 * pickers; i < 60 * pickers; ++i)  // no more keys than are picked, or no more than 10
        ASSERT_EQ(words.tensor().as<uint64_t>()[i] >> (i / pickers - 49), 0) << "row " << i / pickers;
    }
}

// So many ranks that a task of the processor has fewer queries.
TEST(PickKeys, OfManyPickersAreThoseOfEachQueryAlone) {
  constexpr int64_t kBefore = 1040, kTokens = 36;
  const PickCase c{kBefore + kTokens, 64, 8, 20, false};
  const auto op = backend(Precision::BF16);
  const Inputs in(c, op->activation_dtype());
  KvRows kept;
  KvRows* const rows[] = {&kept};
  const Span all_keys{0, c.tokens, 0};
  op->keep_rows(in.k, {}, {&all_keys, 1}, rows);
  const KvRows* const read[] = {&kept};
  const auto picked = [&](int64_t first, int64_t n) {
    const Span span{0, n, first};
    return op->pick_keys(in.q.tensor().rows(first, n), {}, in.k.tensor().rows(first, n), {&span, 1}, read, spec_of(c));
  };
  const Owned together = picked(kBefore, kTokens);
  const Storage expected = on_host(together.view);
  for (const int64_t row : {int64_t{0}, int64_t{13}, int64_t{14}, int64_t{15}, int64_t{16}, kTokens - 1}) {
    const Owned alone = picked(kBefore + row, 1);
    const Storage words = on_host(alone.view);
    const int64_t n_words = words.tensor().dim(2), n_expected = expected.tensor().dim(2);
    for (int64_t picker = 0; picker < c.heads; ++picker)
      for (int64_t w = 0; w < n_words; ++w)
        ASSERT_EQ(words.tensor().as<uint64_t>()[picker * n_words + w],
                  expected.tensor().as<uint64_t>()[(row * c.heads + picker) * n_expected + w])
            << "row " << row << ", picker " << picker << ", word " << w;
  }
}

// A product that is no number counts for nothing in a sum of heads, and is above all others where it is the score.
TEST(PickKeys, RankWhatIsNoNumber) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const bool weighted : {true, false}) {
      const auto op = backend(p);
      const DType t = op->activation_dtype();
      std::vector<double> x(100, 1.0);
      x[70] = std::nan("");
      x[30] = x[31] = 2.0;
      const Values q = values({100, 1, 1}, t, std::vector<double>(100, 1.0)), k = values({100, 1, 1}, t, x),
                   w = values({100, 1}, t, std::vector<double>(100, 1.0));
      const Span span{0, 100, 0};
      const KvRows* const none[] = {nullptr};
      const Owned picked = op->pick_keys(q, weighted ? w.tensor() : Tensor{}, k, {&span, 1}, none, {3});
      const Storage words = on_host(picked.view);
      const auto* word = words.tensor().as<uint64_t>();
      EXPECT_EQ(word[2 * 99], uint64_t{3} << 30 | (weighted ? 1 : 0));
      EXPECT_EQ(word[2 * 99 + 1], weighted ? 0 : uint64_t{1} << 6);
    }
}

TEST(PickKeys, TakeTheFirstOfEquals) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const DType t = op->activation_dtype();
    const Values q = values({100, 1, 1}, t, std::vector<double>(100, 1.0)),
                 w = values({100, 1}, t, std::vector<double>(100, 1.0));
    std::vector<double> x(100, -1.0);  // scores 0, all alike
    for (const size_t j : {30u, 31u, 80u, 81u, 82u}) x[j] = 2.0;
    const Span span{0, 100, 0};
    const KvRows* const none[] = {nullptr};
    const Owned picked = op->pick_keys(q, w, values({100, 1, 1}, t, x), {&span, 1}, none, {4});
    const Storage words = on_host(picked.view);
    const auto* word = words.tensor().as<uint64_t>();
    EXPECT_EQ(word[2 * 20], uint64_t{15});                     // 0 .. 3
    EXPECT_EQ(word[2 * 40], uint64_t{3} | uint64_t{3} << 30);  // 0, 1, 30, 31
    EXPECT_EQ(word[2 * 99], uint64_t{3} << 30);                // of 80, 81, 82 the first two
    EXPECT_EQ(word[2 * 99 + 1], uint64_t{3} << 16);
  }
}

TEST(PickKeys, RefusesWhatDoesNotFit) {
  const auto op = backend(Precision::F32);
  const Values q = random_values({4, 2, 8}, DType::F32, 1), k = random_values({4, 1, 8}, DType::F32, 2),
               w = random_values({4, 2}, DType::F32, 3), narrow = random_values({4, 1, 7}, DType::F32, 4);
  const Span span{0, 4, 0}, later{0, 4, 3};
  const KvRows* const none[] = {nullptr};
  const auto message = [&](const Tensor& weights, const Tensor& keys, const Span& s, const PickSpec& spec) {
    return message_of([&] { op->pick_keys(q, weights, keys, {&s, 1}, none, spec); });
  };
  EXPECT_NE(message(w, narrow, span, {2}).find("does not fit k"), std::string::npos);
  EXPECT_NE(message(q, k, span, {2}).find("weights"), std::string::npos);
  EXPECT_NE(message(w, k, span, {0}).find("picks 0 keys"), std::string::npos);
  EXPECT_NE(message(w, k, span, {2, 1, 3}).find("3 of 2 picked blocks are near"), std::string::npos);
  EXPECT_NE(message(w, k, later, {2}).find("nothing was kept"), std::string::npos);
  AttentionSpec spec{0.2f};
  const Storage words = picked_words(4, 3);
  spec.picked = words.tensor();
  EXPECT_NE(message_of([&] {
              op->attention(q, q, q, {&span, 1}, no_rows(1), spec);
            }).find("2 heads of keys"),
            std::string::npos);
}

}  // namespace
}  // namespace kvcal::test
