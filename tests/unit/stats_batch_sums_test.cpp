// What sampled rows add up to, against sums made one figure at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "stats/attention_tables.h"
#include "tensor/tensor.h"

namespace kvcal {
namespace {

constexpr int64_t kRows = 130, kHeads = 3;

/// Rows whose rungs change from each to the next; every third one is thorough.
struct Rows {
  SampleRequest request;
  bool has_thorough, has_stream;
  std::vector<RowTokens> tokens;
  std::vector<double> stream;
  Storage rungs, figures;

  Rows(const SampleRequest& asked, bool thorough_too, bool with_stream)
      : request(asked),
        has_thorough(thorough_too),
        has_stream(with_stream),
        rungs({kRows, thorough_too ? 3 : 2}, DType::I32),
        figures({kRows, kHeads, thorough_too ? asked.n_figures() : asked.query_divergence()}, DType::F32) {
    for (int64_t i = 0; i < rungs.tensor().elements(); ++i)  // keys from -9, values from -6, queries from -3
      rungs.tensor().as<int32_t>()[i] = below(9) - 9 + 3 * static_cast<int>(i % rungs.tensor().dim(1));
    for (int64_t i = 0; i < figures.tensor().elements(); ++i) figures.tensor().as<float>()[i] = figure();
    for (int64_t row = 0; row < kRows; ++row) {
      // One row of thousands stands for so many tokens that a sum reaches its largest.
      const int64_t n = row == 77 ? int64_t{1} << 40 : 1 + below(1000);
      tokens.push_back({n, thorough(row) ? n + below(1000) : 0});
      if (with_stream) stream.push_back(below(10) == 0 ? 0 : 1 + below(1000));
      for (int64_t head = 0; thorough_too && !thorough(row) && head < kHeads; ++head)
        std::fill_n(of(row, head) + request.query_divergence(), request.n_figures() - request.query_divergence(),
                    -1.0f);
    }
  }

  bool thorough(int64_t row) const { return has_thorough && row % 3 == 2; }
  float* of(int64_t row, int64_t head) const {
    return figures.tensor().as<float>() + (row * kHeads + head) * figures.tensor().dim(2);
  }
  int lowest(int64_t row, int64_t column) const {
    return rungs.tensor().as<int32_t>()[row * rungs.tensor().dim(1) + column];
  }

 private:
  std::mt19937 random_{7};
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  float figure() {
    const float rare[] = {0, 1000, INFINITY, NAN, 0x1.8p-32f, 0x1p-33f, 0x1p-34f};
    return below(10) == 0 ? rare[below(7)] : static_cast<float>(below(1 << 20)) * 0x1p-18f;
  }
};

class PlainSums {
 public:
  PlainSums(const Rows& rows, int32_t reader) : rows_(rows), reader_(reader) {
    for (int64_t row = 0; row < kRows; ++row) {
      add_row(row);
      if (rows.thorough(row)) add_thorough_row(row);
    }
  }
  std::vector<SampledSum> sums() const {
    std::vector<SampledSum> all;
    for (const auto& [key, sum] : sums_) all.push_back(sum);
    return all;
  }

 private:
  void add_row(int64_t row) {
    double output = 0;
    for (int64_t head = 0; head < kHeads; ++head) output += at(row, head, 0);
    const int k = rows_.lowest(row, 0), v = rows_.lowest(row, 1);
    for (const auto& [i, rung] : tried(rows_.request.cache(), k))
      for (int64_t head = 0; head < kHeads; ++head)
        add(row, SampledFigure::KeyDivergence, head, rung, at(row, head, rows_.request.key_divergence() + i));
    for (const auto& [i, rung] : tried(rows_.request.cache(), v)) {
      double all = 0;
      for (int64_t head = 0; head < kHeads; ++head) {
        const double change = at(row, head, rows_.request.value_change() + i);
        add(row, SampledFigure::ValueChange, head, rung, std::min(share(change, at(row, head, 0)), 1.0));
        all += change;
      }
      add(row, SampledFigure::LayerChange, 0, rung, std::min(share(all, output), 1.0));
      if (rows_.has_stream) add(row, SampledFigure::ValueStreamChange, 0, rung, share(all, stream(row)));
    }
  }

  void add_thorough_row(int64_t row) {
    double output = 0;
    for (int64_t head = 0; head < kHeads; ++head) output += at(row, head, 0);
    for (const auto& [i, rung] : tried(rows_.request.query(), rows_.lowest(row, 2)))
      for (int64_t head = 0; head < kHeads; ++head)
        add(row, SampledFigure::QueryDivergence, head, rung, at(row, head, rows_.request.query_divergence() + i));
    for (const auto& [i, rung] : tried(rows_.request.cache(), rows_.lowest(row, 0))) {
      double all = 0;
      for (int64_t head = 0; head < kHeads; ++head) all += at(row, head, rows_.request.key_change() + i);
      add(row, SampledFigure::KeyLayerChange, 0, rung, share(all, output));
      if (rows_.has_stream) add(row, SampledFigure::KeyStreamChange, 0, rung, share(all, stream(row)));
    }
  }

  double at(int64_t row, int64_t head, int figure) const { return static_cast<double>(rows_.of(row, head)[figure]); }
  double stream(int64_t row) const { return rows_.stream[static_cast<size_t>(row)]; }
  static double share(double change, double whole) { return change == 0 ? 0 : change / whole; }

  /// Places on a ladder with their rungs, each rung once.
  static std::map<int, int> tried(const RungLadder& ladder, int lowest) {
    std::map<int, int> places;
    std::set<int> seen;
    for (int i = 0; i < ladder.size(); ++i)
      if (seen.insert(ladder.rung(i, lowest)).second) places[i] = ladder.rung(i, lowest);
    return places;
  }

  void add(int64_t row, SampledFigure figure, int64_t head, int rung, double value) {
    constexpr auto kMost = static_cast<__uint128_t>(std::numeric_limits<uint64_t>::max());
    SampledSum key{figure, rows_.request.format, reader_, static_cast<int32_t>(head), rung};
    SampledSum& sum = sums_.try_emplace(key.key(), key).first->second;
    const RowTokens& row_tokens = rows_.tokens[static_cast<size_t>(row)];
    const auto n = static_cast<uint64_t>(is_of_thorough(figure) ? row_tokens.thorough : row_tokens.all);
    const auto fixed = static_cast<uint64_t>(std::llround((value < 64 ? value : 64.0) * 0x1p32));
    ++sum.rows;
    sum.tokens += n;
    sum.sum = static_cast<uint64_t>(std::min(kMost, static_cast<__uint128_t>(fixed) * n + sum.sum));
    sum.worst = std::max(sum.worst, fixed);
  }

  const Rows& rows_;
  int32_t reader_;
  std::map<std::tuple<SampledFigure, SampleFormat, int32_t, int32_t, int32_t>, SampledSum> sums_;
};

void expect_plain_sums(const Rows& rows) {
  for (const int n_threads : {1, 3}) {
    ThreadPool pool(n_threads);
    AttentionTables tables;
    for (const int32_t reader : {0, 1})
      tables.add({rows.rungs.tensor(), rows.figures.tensor(), reader, rows.tokens, rows.stream}, rows.request, pool);
    std::vector<SampledSum> expected;
    for (const int32_t reader : {0, 1})
      for (const SampledSum& sum : PlainSums(rows, reader).sums()) expected.push_back(sum);
    std::ranges::sort(expected, {}, &SampledSum::key);
    EXPECT_TRUE(tables.encode() == expected) << n_threads << " threads";
  }
}

TEST(BatchSums, AreThePlainSumsForAnyNumberOfThreads) {
  SampleRequest as_it_is, clipping;
  clipping.rungs_below = 2;
  clipping.format = SampleFormat::Int8;
  for (const SampleRequest& request : {as_it_is, clipping})
    for (const bool thorough : {false, true})
      for (const bool stream : {false, true}) {
        SCOPED_TRACE(testing::Message() << request.rungs_below << " rungs below, thorough " << thorough << ", stream "
                                        << stream);
        expect_plain_sums(Rows(request, thorough, stream));
      }
}

// Of the same rows twice, each row counts twice.
TEST(BatchSums, BatchesOfAReaderAddUp) {
  const Rows rows({}, true, true);
  ThreadPool pool(3);
  AttentionTables tables;
  for (int i = 0; i < 2; ++i)
    tables.add({rows.rungs.tensor(), rows.figures.tensor(), 0, rows.tokens, rows.stream}, rows.request, pool);
  std::vector<SampledSum> expected = PlainSums(rows, 0).sums();
  for (SampledSum& sum : expected) sum.add(SampledSum(sum));
  EXPECT_TRUE(tables.encode() == expected);
}

}  // namespace
}  // namespace kvcal
