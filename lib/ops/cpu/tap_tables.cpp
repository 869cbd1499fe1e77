// Statistics in the plain form of the contract. Runs on the CPU do not come here: for tensors in host memory the
// observer has tables of its own, which are made for the caches of a processor.
#include <algorithm>
#include <bit>

#include "base/position_bucket.h"
#include "ops/cpu/cpu_backend.h"
#include "tensor/dtype.h"

namespace kvcal::cpu {
namespace {

constexpr uint16_t kMagnitude = 0x7FFF, kInfinity = 0x7F80;
constexpr uint64_t kPlaces = uint64_t{1} << kPlaceBits;

/// One head's part of the tables.
class HeadCounts {
 public:
  HeadCounts(uint64_t* words, const TapShape& shape, int64_t head)
      : words_(words), shape_(shape), at_(layout_of(shape)), head_(head) {}

  /// Counts one row; `code` becomes the largest of its finite codes.
  void add(const uint16_t* bits, int64_t rank, uint16_t& code) {
    code = 0;
    int64_t first = 0;
    for (int64_t c = 0; c < shape_.width; ++c) {
      const uint16_t magnitude = bits[c] & kMagnitude;
      ++words_[at_.codes + head_ * kTapCodes + magnitude];
      if (magnitude >= kInfinity) {
        const auto place = static_cast<uint64_t>(rank * shape_.width + c);
        raise(at_.non_finite + head_, ~(place << 1 | (magnitude > kInfinity ? 1u : 0u)));
        continue;
      }
      add_moments(bits[c], c);
      if (magnitude <= code) continue;
      code = magnitude;
      first = c;
    }
    for (int64_t p = 0; p < shape_.pairs; ++p) {
      const int64_t a = shape_.interleaved ? 2 * p : p, b = a + (shape_.interleaved ? 1 : shape_.pairs);
      const double x = finite(bits[a]), y = finite(bits[b]);
      raise(at_.pairs + head_ * shape_.pairs + p, std::bit_cast<uint64_t>(x * x + y * y));
    }
    if (shape_.kept != TapSums::None) ++words_[at_.token_octaves + head_ * 256 + code / 128];
    const auto place = static_cast<uint64_t>(rank * shape_.width + first);
    raise(at_.absmax + head_, uint64_t{code} << kPlaceBits | (kPlaces - 1 - place));
  }

  void raise(int64_t word, uint64_t value) { words_[word] = std::max(words_[word], value); }

 private:
  static double finite(uint16_t bits) { return (bits & kMagnitude) < kInfinity ? double{to_float(bf16{bits})} : 0.0; }

  void add_moments(uint16_t bits, int64_t channel) {
    if (shape_.kept == TapSums::None) return;
    const uint16_t code = bits & kMagnitude;
    const int64_t octave = code / 128, width = shape_.width;
    const uint64_t m = code % 128 + (octave > 0 ? 128u : 0u);
    uint64_t* to = words_ + at_.moments + (octave * shape_.heads + head_) * shape_.sums() * width + channel;
    if (shape_.kept == TapSums::Energy) {
      *to += m * m;
      return;
    }
    *to += 1;
    to[width] += m;
    to[2 * width] += m * m;
    to[3 * width] += bits > kMagnitude ? uint64_t{0} - m : m;
    raise(at_.channel_absmax + head_ * width + channel, code);
  }

  uint64_t* words_;
  const TapShape& shape_;
  TapLayout at_;
  int64_t head_;
};

/// Token i of a piece: its heads are one after the other from element `from` of x on.
void count_row(const Tensor& x, int64_t from, const TapTables& tables, const TapRows& piece, int64_t i) {
  const TapShape& shape = tables.shape;
  const TapLayout at = layout_of(shape);
  std::vector<uint16_t> bits(static_cast<size_t>(shape.width));
  for (int64_t h = 0; h < shape.heads; ++h, from += shape.width) {
    HeadCounts head(tables.words.view.as<uint64_t>(), shape, h);
    for (int64_t c = 0; c < shape.width; ++c)
      bits[static_cast<size_t>(c)] =
          x.dtype == DType::BF16 ? x.as<uint16_t>()[from + c] : to_bf16(x.as<float>()[from + c]).bits;
    uint16_t code = 0;
    head.add(bits.data(), piece.first_rank + i * piece.rank_step, code);
    head.raise(at.cells + piece.cell, code);
    head.raise(at.positions + position_bucket(piece.first_position + i), code);
  }
}

}  // namespace

void CpuBackend::do_accumulate(const Tensor& x, const TapTables& tables, std::span<const TapRows> rows) {
  const int64_t row_size = tables.shape.heads * tables.shape.width;
  for (const TapRows& piece : rows)
    for (int64_t i = 0; i < piece.n_tokens; ++i) count_row(x, (piece.row + i) * row_size, tables, piece, i);
}

void CpuBackend::do_count_states(std::span<const Tensor> states, const TapTables& tables,
                                 std::span<const TapRows> rows) {
  for (size_t s = 0; s < states.size(); ++s) count_row(states[s], 0, tables, rows[s], 0);
}

}  // namespace kvcal::cpu
