// Dense counters of one head while its layer runs. One task at a time adds to a head, so nothing here is shared.
//
// The inner loop makes two additions per value: to the histogram of codes, and to a packed word of its channel, row
// = sign and octave, that holds three sums of the 7-bit mantissas f at once: count (15 bits), Σf (21), Σf² (28). They
// cannot overflow within 16,384 tokens; then the words are unpacked into 64-bit moments, where the significand
// m = 128 + f of the normal octaves gives Σm = Σf + 128 n and Σm² = Σf² + 256 Σf + 16384 n.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <vector>

#include "model/batch.h"
#include "stats/statistics.h"

namespace kvcal {

/// Zeroed 64-bit numbers whose untouched pages cost no memory: most octaves of most tables stay empty.
template <class T>
class SparseZeros {
 public:
  explicit SparseZeros(int64_t n);
  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> memory_;
};

/// The first infinity or NaN of a head, in the order of Provenance.
struct NonFinite {
  Provenance where;
  bool is_nan = false;
};

/// What a device counted of one head, in the words of ops/tap_tables.h.
struct CountedHead {
  const uint64_t *codes, *token_octaves, *channel_absmax, *pairs;
  const uint64_t* moments;   // [sums, width] of octave 0
  int64_t octave_words = 0;  // from one octave to the next
  std::optional<uint16_t> absmax;
  Provenance where;
  std::optional<NonFinite> non_finite;
};

class HeadTables {
 public:
  HeadTables(const KvLayout& layout, CacheSite site, int64_t head);

  /// Counts the rows of one segment: row i is the bf16 bits at rows + i * stride, [width]. row_absmax[i] becomes the
  /// row's largest finite code.
  void add(const Segment& segment, const uint16_t* rows, int64_t stride, uint16_t* row_absmax);

  /// Adds what was counted elsewhere.
  void add(const CountedHead& counted);

  /// The sparse form.
  HeadStatistics encode_head() const;
  std::vector<ChannelStatistics> encode_channels();  // [width]
  std::vector<double> encode_pairs() const;          // [pairs]

  const std::optional<NonFinite>& first_non_finite() const { return non_finite_; }

  /// Upper bound of the memory of one head's tables.
  static int64_t bytes(const KvLayout& layout, CacheSite site);

 private:
  bool is_query() const { return site_ == CacheSite::Query; }
  template <bool Signed>
  void count_row(const uint16_t* row);
  void maxima_of_row(const uint16_t* row);
  uint16_t finite_row(const uint16_t* row, const Provenance& at);
  void place(const uint16_t* row, uint16_t code, Provenance at);
  void keep_absmax(uint16_t code, const Provenance& at);
  void keep_non_finite(const NonFinite& found);
  void unpack();
  void unpack_row(int64_t row);
  bool octave_used(int64_t octave) const;

  CacheSite site_;
  PairBound pair_bound_;
  int64_t head_, width_, n_pairs_;
  SparseZeros<uint64_t> histogram_;  // [32768], by code
  SparseZeros<uint64_t> packed_;     // [sign, octave][width]; queries: [octave][width]
  SparseZeros<int64_t> moments_;  // [octave][4][width]: count, Σm, Σm², signed Σm; queries: [octave][width], Σm²
  int64_t packed_tokens_ = 0;     // rows since the last unpack()

  std::vector<int16_t> channel_absmax_;  // [width], codes; empty for queries
  std::vector<double> pair_squares_;     // [pairs], largest a² + b²
  std::array<uint64_t, 256> token_octaves_{};
  std::vector<uint16_t> scratch_;  // [width], a row without its infinities and NaNs
  bool seen_ = false;              // any finite row
  uint16_t absmax_ = 0;
  Provenance where_;
  std::optional<NonFinite> non_finite_;
};

}  // namespace kvcal
