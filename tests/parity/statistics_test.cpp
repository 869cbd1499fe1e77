// Ops::accumulate and Ops::count_states: every word of the tables against sums and maxima in double, over shapes, kinds
// of values and ways to divide the rows.
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

constexpr TapSums kMoments = TapSums::Moments, kEnergy = TapSums::Energy, kNone = TapSums::None;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();

/// Octave and significand of a finite bf16 value: |x| = m 2^(max(octave, 1) - 134).
std::pair<int, double> split(double x) {
  if (std::fabs(x) < 0x1p-126) return {0, std::fabs(x) * 0x1p133};
  const int exponent = std::ilogb(x);
  return {exponent + 127, std::ldexp(std::fabs(x), 7 - exponent)};
}

uint64_t code_of(double x) {
  if (!std::isfinite(x)) return std::isnan(x) ? 0x7FC0 : 0x7F80;
  const auto [octave, m] = split(x);
  return static_cast<uint64_t>(octave * 128 + static_cast<int>(m) - (octave > 0 ? 128 : 0));
}

/// What the tables must hold; places of maxima as the tuples they stand for.
class Expected {
 public:
  explicit Expected(const TapShape& shape) : shape_(shape), at_(layout_of(shape)), words_(size_t(at_.words)) {}

  void add(const std::vector<double>& x, std::span<const TapRows> rows) {
    for (const TapRows& piece : rows)
      for (int64_t i = 0; i < piece.n_tokens; ++i)
        for (int64_t h = 0; h < shape_.heads; ++h) {
          const double* row = x.data() + ((piece.row + i) * shape_.heads + h) * shape_.width;
          add_row(row, h, piece.first_rank + i * piece.rank_step, piece.first_position + i, piece.cell);
        }
  }

  std::vector<uint64_t> words() const {
    std::vector<uint64_t> all = words_;
    for (const auto& [head, first] : absmax_) {
      const auto& [minus, rank, channel] = first;
      all[size_t(at_.absmax + head)] = code_of(-minus) * (uint64_t{1} << 49) + (uint64_t{1} << 49) - 1 -
                                       static_cast<uint64_t>(rank * shape_.width + channel);
    }
    for (const auto& [head, first] : non_finite_) {
      const auto& [rank, channel, nan] = first;
      all[size_t(at_.non_finite + head)] = ~static_cast<uint64_t>(2 * (rank * shape_.width + channel) + (nan ? 1 : 0));
    }
    return all;
  }

 private:
  void raise(int64_t word, uint64_t to) { words_[size_t(word)] = std::max(words_[size_t(word)], to); }

  void add_row(const double* row, int64_t h, int64_t rank, int64_t position, int64_t cell) {
    const int64_t width = shape_.width;
    std::vector<double> finite(row, row + width);
    std::tuple<double, int64_t, int64_t> first{1, 0, 0};  // the smallest of (-|x|, rank, channel)
    for (int64_t c = 0; c < width; ++c) {
      ++words_[size_t(at_.codes + h * 32768) + code_of(row[c])];
      if (!std::isfinite(row[c])) {
        finite[size_t(c)] = 0;
        const std::tuple here{rank, c, std::isnan(row[c])};
        const auto found = non_finite_.try_emplace(h, here).first;
        found->second = std::min(found->second, here);
      } else {
        add_moments(row[c], h, c);
      }
      first = std::min(first, {-std::fabs(finite[size_t(c)]), rank, c});
    }
    const auto found = absmax_.try_emplace(h, first).first;
    found->second = std::min(found->second, first);
    const uint64_t top = code_of(std::get<0>(first));
    if (shape_.kept != kNone) ++words_[size_t(at_.token_octaves + h * 256) + top / 128];
    raise(at_.cells + cell, top);
    int64_t bucket = 0;
    while (int64_t{1} << bucket <= position) ++bucket;
    raise(at_.positions + bucket, top);
    for (int64_t p = 0; p < shape_.pairs; ++p) {
      const double a = finite[size_t(shape_.interleaved ? 2 * p : p)],
                   b = finite[size_t(shape_.interleaved ? 2 * p + 1 : p + shape_.pairs)];
      double square = a * a + b * b;
      uint64_t bits;
      std::memcpy(&bits, &square, sizeof bits);
      raise(at_.pairs + h * shape_.pairs + p, bits);
    }
  }

  void add_moments(double x, int64_t h, int64_t c) {
    if (shape_.kept == kNone) return;
    const auto [octave, m] = split(x);
    const int64_t sums = shape_.sums(), from = at_.moments + (octave * shape_.heads + h) * sums * shape_.width + c;
    const double added[4] = {1, m, m * m, std::signbit(x) ? -m : m};
    if (shape_.kept == kEnergy) {
      words_[size_t(from)] += static_cast<uint64_t>(m * m);
      return;
    }
    for (int64_t i = 0; i < 4; ++i)
      words_[size_t(from + i * shape_.width)] += static_cast<uint64_t>(static_cast<int64_t>(added[i]));
    raise(at_.channel_absmax + h * shape_.width + c, code_of(x));
  }

  TapShape shape_;
  TapLayout at_;
  std::vector<uint64_t> words_;
  std::map<int64_t, std::tuple<double, int64_t, int64_t>> absmax_;
  std::map<int64_t, std::tuple<int64_t, int64_t, bool>> non_finite_;
};

const char* part_of(const TapLayout& at, size_t word) {
  const std::pair<int64_t, const char*> parts[] = {{at.moments, "moments"},
                                                   {at.codes, "codes"},
                                                   {at.pairs, "pairs"},
                                                   {at.channel_absmax, "channels"},
                                                   {at.token_octaves, "token octaves"},
                                                   {at.cells, "cells"},
                                                   {at.positions, "positions"},
                                                   {at.non_finite, "non-finite"},
                                                   {at.absmax, "absmax"}};
  for (const auto& [from, name] : parts)
    if (static_cast<int64_t>(word) >= from) return name;
  return "";
}

/// Kinds of values: what the window of a kernel holds, what it does not, equal ones, ones that are no numbers.
enum class Kind : uint8_t { Normal, Outliers, Zeros, Denormals, Extremes, Ties, Broken };

std::vector<double> made_up(Kind kind, const TapShape& s, int64_t tokens, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> x(size_t(tokens * s.heads * s.width));
  for (size_t i = 0; i < x.size(); ++i) {
    const double r = normal(random);
    const auto kinds = random();
    x[i] = r;
    if (kind == Kind::Outliers && int64_t(i) % s.width == s.width / 3) x[i] = 1000.0 * r;
    if (kind == Kind::Zeros) x[i] = kinds % 2 ? 0.0 : -0.0;
    if (kind == Kind::Denormals && kinds % 3 == 0) x[i] = 1e-39 * r;
    if (kind == Kind::Extremes) x[i] = std::ldexp(r, int(kinds % 250) - 124);
    if (kind == Kind::Ties) x[i] = kinds % 2 ? 3.25 : -3.25;
    if (kind == Kind::Broken && kinds % 97 == 0) x[i] = kinds % 2 ? kNaN : kinds % 4 ? kInfinite : -kInfinite;
  }
  return x;
}

/// Cuts rows into pieces of about `piece` rows, of several cells, ranks neither ascending nor without gaps.
std::vector<TapRows> pieces(int64_t tokens, int64_t piece, int64_t cells, int64_t first_rank) {
  std::vector<TapRows> rows;
  for (int64_t row = 0; row < tokens; row += piece) {
    const int64_t n = std::min(piece, tokens - row), i = row / piece;
    rows.push_back({row, n, 37 * i % 5000, i % cells, first_rank + (i % 3) * 1000000 - row, 1 + i % 3});
  }
  return rows;
}

void expect_equal(Ops& ops, const TapTables& tables, const std::vector<uint64_t>& right) {
  const Storage words(tables.words.view.shape, DType::U64);
  ops.download(tables.words, words.tensor());
  size_t wrong = 0;
  for (size_t i = 0; i < right.size(); ++i)
    if (words.tensor().as<uint64_t>()[i] != right[i] && wrong++ < 5)
      ADD_FAILURE() << part_of(layout_of(tables.shape), i) << ", word " << i << ": " << words.tensor().as<uint64_t>()[i]
                    << ", expected " << right[i];
  EXPECT_EQ(wrong, 0U);
}

struct Case {
  TapShape shape;
  int64_t tokens, piece;
};

void check(const Case& c, Kind kind, DType dtype, int n_calls = 1) {
  SCOPED_TRACE(testing::Message() << "heads " << c.shape.heads << ", width " << c.shape.width << ", pairs "
                                  << c.shape.pairs << ", tokens " << c.tokens << ", kind " << int(kind)
                                  << (dtype == DType::F32 ? ", f32" : ", bf16"));
  const auto ops = backend(Precision::BF16);
  const TapTables tables = ops->tap_tables(c.shape);
  Expected expected(c.shape);
  for (int call = 0; call < n_calls; ++call) {
    const Values x =
        values({c.tokens, c.shape.heads, c.shape.width}, dtype, made_up(kind, c.shape, c.tokens, uint32_t(17 + call)));
    const auto rows = pieces(c.tokens, c.piece, c.shape.cells, 100000000 - 50000 * call);
    ops->accumulate(ops->upload(x.tensor()), tables, rows);
    ops->end_batch();
    std::vector<double> rounded = x.real;
    for (double& r : rounded) r = round_to(Precision::BF16, r);
    expected.add(rounded, rows);
  }
  expect_equal(*ops, tables, expected.words());
}

/// The same of states: each a row of its own, some shown twice in one call.
void check_states(const TapShape& shape, Kind kind, int64_t n_states) {
  SCOPED_TRACE(testing::Message() << "heads " << shape.heads << ", width " << shape.width << ", states " << n_states
                                  << ", kind " << int(kind));
  const auto ops = backend(Precision::BF16);
  const TapTables tables = ops->tap_tables(shape);
  Expected expected(shape);
  std::vector<Values> shown;
  for (int64_t i = 0; i < n_states; ++i)
    shown.push_back(values({shape.heads, shape.width}, DType::F32, made_up(kind, shape, 1, uint32_t(23 + i))));
  std::vector<Tensor> states;
  std::vector<TapRows> rows;
  for (int64_t i = 0; i < n_states + n_states / 2; ++i) {
    const Values& x = shown[size_t(i % n_states)];
    states.push_back(ops->upload(x.tensor()));
    rows.push_back({i, 1, 64 * i - (i > 0 ? 1 : 0), i % shape.cells, 1000000 - 37 * i, 1});
    std::vector<double> rounded = x.real;
    for (double& r : rounded) r = round_to(Precision::BF16, r);
    TapRows alone = rows.back();
    alone.row = 0;
    expected.add(rounded, std::vector<TapRows>{alone});
  }
  ops->count_states(states, tables, rows);
  ops->end_batch();
  expect_equal(*ops, tables, expected.words());
}

constexpr Kind kKinds[] = {Kind::Normal,   Kind::Outliers, Kind::Zeros, Kind::Denormals,
                           Kind::Extremes, Kind::Ties,     Kind::Broken};

// Few rows, one, more than are summed between two flushes; odd, narrow, wide heads; one head and many; pairs of both
// kinds, over all channels or some.
const Case kShapes[] = {{{1, 1, 0, false, kMoments, 1}, 1, 1},     {{2, 80, 40, false, kMoments, 6}, 300, 70},
                        {{1, 96, 16, true, kMoments, 2}, 64, 256}, {{1, 576, 32, true, kMoments, 3}, 270, 100},
                        {{3, 33, 5, false, kMoments, 4}, 45, 1},   {{2, 256, 128, false, kMoments, 1}, 33, 5},
                        {{7, 64, 0, false, kEnergy, 5}, 257, 100}, {{2, 130, 0, false, kEnergy, 2}, 100, 99},
                        {{17, 24, 8, false, kMoments, 9}, 31, 10}, {{1, 128, 0, false, kEnergy, 1}, 513, 600}};

TEST(Statistics, equal_sums_and_maxima) {
  for (const Case& c : kShapes) check(c, Kind::Normal, DType::BF16);
}

TEST(Statistics, values_of_every_kind) {
  for (const Kind kind : kKinds) {
    check({{2, 40, 20, false, kMoments, 3}, 100, 30}, kind, DType::BF16);
    check({{2, 40, 0, false, kEnergy, 3}, 100, 30}, kind, DType::F32);
  }
}

TEST(Statistics, rounds_f32_first) {
  for (const Kind kind : kKinds) check({{3, 48, 24, true, kMoments, 2}, 70, 33}, kind, DType::F32);
}

TEST(Statistics, calls_add_up) {
  check({{2, 48, 24, false, kMoments, 4}, 90, 20}, Kind::Normal, DType::BF16, 3);
  check({{2, 48, 24, false, kMoments, 4}, 90, 20}, Kind::Ties, DType::BF16, 3);
}

// A block of the CUDA kernel then takes more rows than it sums up between two flushes.
TEST(Statistics, many_rows) { check({{2, 3, 1, false, kMoments, 7}, 17000, 997}, Kind::Normal, DType::BF16); }

TEST(Statistics, a_packed_sum_of_the_largest_significands) {
  const auto ops = backend(Precision::BF16);
  const TapShape shape{1, 1, 0, false, kMoments, 1};
  const TapTables tables = ops->tap_tables(shape);
  const std::vector<TapRows> rows = {{0, 256, 0, 0, 0, 1}};
  const Values x = values({256, 1, 1}, DType::BF16, std::vector<double>(256, -255.0));
  Expected expected(shape);
  expected.add(x.real, rows);
  ops->accumulate(ops->upload(x.tensor()), tables, rows);
  expect_equal(*ops, tables, expected.words());
}

// Heads of less than a warp, of several blocks of the CUDA kernel and a part of one, and one head that is a whole
// layer's.
TEST(Statistics, states) {
  for (const Kind kind : kKinds) check_states({3, 35, 0, false, kNone, 4}, kind, 5);
  check_states({2, 128 * 128, 0, false, kNone, 1}, Kind::Normal, 2);
  check_states({1, 40000, 0, false, kNone, 2}, Kind::Broken, 3);
  check_states({1, 40000, 0, false, kNone, 2}, Kind::Ties, 1);
}

}  // namespace
}  // namespace kvcal::test
