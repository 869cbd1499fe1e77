// What rounding of a cache does to attention, summed over the sampled rows of a run (ops/attention_sample.h).
//
// Each row counts as often as there are tokens that it stands for, so means are over tokens, however long the prompts
// are. Sums are of fixed-point numbers, so they are exact and do not depend on the order of rows, batches or shards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "ops/attention_sample.h"

namespace kvcal {

/// What a sum is of. Change: |y' - y|_w² / |y|_w², with values rounded; of a row at most kWholeRow.
enum class SampledFigure : uint8_t {
  KeyDivergence,    // of a query head: KL(p, p') in nats, with keys rounded
  ValueChange,      // of a query head
  LayerChange,      // of all heads of a layer together; head 0
  QueryDivergence,  // of a query head: KL(p, p') with queries rounded
  // Of all heads of a layer together; head 0: |y' - y|_w² / |x|², x the residual stream that the layer reads.
  KeyStreamChange,    // with keys rounded, of thorough rows
  ValueStreamChange,  // with values rounded
  // LayerChange, with keys rounded, of thorough rows; of a row as much as it is: it is held against its divergence.
  KeyLayerChange = 7,  // older files have a 6, which nothing reads
};
constexpr auto kLastSampledFigure = SampledFigure::KeyLayerChange;

/// Whether a figure is of thorough rows alone.
constexpr bool is_of_thorough(SampledFigure figure) {
  return figure == SampledFigure::QueryDivergence || figure == SampledFigure::KeyStreamChange ||
         figure == SampledFigure::KeyLayerChange;
}

/// One figure at one rung.
struct SampledSum {
  SampledFigure figure = SampledFigure::KeyDivergence;
  SampleFormat format = SampleFormat::E4m3;
  int32_t reader = 0;  // which of the layers that read the cache, its owner first
  int32_t head = 0;    // query head
  int32_t rung = 0;    // the scale is 2^rung
  uint64_t rows = 0;
  uint64_t tokens = 0;  // that the rows stand for
  uint64_t sum = 0;     // over those tokens, of the figure, capped at kMostSampled, in units of kSampledUnit
  uint64_t worst = 0;   // largest of a row, in the same units
  /// Adds the rows of another sum of the same key. The sum stays at its largest number once there, so order is no
  /// matter.
  void add(const SampledSum& other) {
    constexpr uint64_t kLargest = std::numeric_limits<uint64_t>::max();
    rows += other.rows;
    tokens += other.tokens;
    sum = sum > kLargest - other.sum ? kLargest : sum + other.sum;
    worst = std::max(worst, other.worst);
  }
  auto key() const { return std::tie(figure, format, reader, head, rung); }
  bool operator==(const SampledSum&) const = default;
};

constexpr double kSampledUnit = 0x1p-32;
constexpr double kMostSampled = 64;  // beyond that everything is lost anyway
constexpr double kWholeRow = 1;      // a row that changed by as much as it is

/// Mean over tokens.
double mean_of(const SampledSum& sum);

/// How many tokens a sampled row stands for: those since the one before it, itself included.
struct RowTokens {
  int64_t all = 0;
  int64_t thorough = 0;  // since the thorough row before it; 0 where the row is not thorough
};

/// What rounding did to sampled rows, on the host, in one of the layers that read the cache.
struct SampledBatch {
  Tensor rungs, figures;                // AttentionSample's
  int32_t reader = 0;                   // which layer
  std::span<const RowTokens> tokens{};  // of each row
  std::span<const double> stream{};     // |x|² of each row, or empty where it is not known
};

class AttentionTables {
 public:
  /// Rows are shared out to the pool's threads. Of the request only format and ladders are read.
  void add(const SampledBatch& batch, const SampleRequest& request, ThreadPool& pool);

  /// Sorted by key().
  std::vector<SampledSum> encode() const;

 private:
  std::map<std::tuple<SampledFigure, SampleFormat, int32_t, int32_t, int32_t>, SampledSum> sums_;
};

/// Positions of a prompt's sampled rows: all of a short one, else kSampledRows of them: the first, and evenly spaced
/// ones with the last among them.
constexpr int64_t kSampledRows = 64;
bool is_sampled(int64_t position, int64_t n_tokens);

/// Of the sampled ones, those whose rounded query is tried: one in four, the last included.
bool thorough(int64_t position, int64_t n_tokens);

/// Of a sampled position.
RowTokens tokens_of_row(int64_t position, int64_t n_tokens);

}  // namespace kvcal
