#include "stats/head_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>

#include "tensor/dtype.h"

namespace kvcal {
namespace {

constexpr int64_t kCodes = 32768, kOctaves = 256, kFiniteOctaves = 255;
constexpr uint16_t kMagnitude = 0x7FFF, kInfinity = 0x7F80;

// Fields of a packed word; together 64 bits after kPackedTokens additions of the largest mantissa.
constexpr int64_t kPackedTokens = 16384;
constexpr int kSumShift = 15, kSquareShift = 36;
constexpr uint64_t kCountMask = (uint64_t{1} << kSumShift) - 1;
constexpr uint64_t kSumMask = (uint64_t{1} << (kSquareShift - kSumShift)) - 1;
static_assert(kPackedTokens <= int64_t{kCountMask} && kPackedTokens * 127 <= int64_t{kSumMask});
static_assert(kPackedTokens * 127 * 127 < int64_t{1} << (64 - kSquareShift));

constexpr std::array<uint64_t, 128> make_words() {
  std::array<uint64_t, 128> words{};
  for (uint64_t f = 0; f < 128; ++f) words[f] = 1 | f << kSumShift | f * f << kSquareShift;
  return words;
}
constexpr std::array<uint64_t, 128> kWords = make_words();

uint16_t magnitude_code(uint16_t bits) { return bits & kMagnitude; }

/// Largest code of a row. Codes have no sign bit, so signed 16-bit maxima (which every x86 has as vectors) order them.
uint16_t row_maximum(const uint16_t* row, int64_t width) {
  int16_t largest = 0;
  for (int64_t c = 0; c < width; ++c) largest = std::max(largest, static_cast<int16_t>(row[c] & kMagnitude));
  return static_cast<uint16_t>(largest);
}

double squared_norm(uint16_t a, uint16_t b) {
  const double x = to_float(bf16{a}), y = to_float(bf16{b});
  return x * x + y * y;
}

int64_t packed_rows(CacheSite site) { return site == CacheSite::Query ? kOctaves : 2 * kOctaves; }
int64_t n_moments(CacheSite site) { return site == CacheSite::Query ? 1 : 4; }

}  // namespace

template <class T>
SparseZeros<T>::SparseZeros(int64_t n) : memory_(static_cast<T*>(std::calloc(static_cast<size_t>(n), sizeof(T)))) {
  if (!memory_) throw std::bad_alloc();
}
template class SparseZeros<uint64_t>;
template class SparseZeros<int64_t>;

HeadTables::HeadTables(const KvLayout& layout, CacheSite site, int64_t head)
    : site_(site),
      pair_bound_(layout.pair_bound),
      head_(head),
      width_(width_of(layout, site)),
      n_pairs_(pairs_of(layout, site)),
      histogram_(kCodes),
      packed_(packed_rows(site) * width_),
      moments_(kOctaves * n_moments(site) * width_),
      channel_absmax_(is_query() ? 0 : static_cast<size_t>(width_)),
      pair_squares_(static_cast<size_t>(n_pairs_)),
      scratch_(static_cast<size_t>(width_)) {}

int64_t HeadTables::bytes(const KvLayout& layout, CacheSite site) {
  const int64_t words = kCodes + (packed_rows(site) + kOctaves * n_moments(site)) * width_of(layout, site);
  return words * 8 + static_cast<int64_t>(sizeof(HeadTables));
}

void HeadTables::add(const Segment& segment, const uint16_t* rows, int64_t stride, uint16_t* row_absmax) {
  for (int64_t i = 0; i < segment.n_tokens; ++i) {
    const uint16_t* row = rows + i * stride;
    const Provenance at{segment.pass, segment.prompt, segment.prompt_offset + i, segment.first_position + i, head_, 0};
    if (packed_tokens_ == kPackedTokens) unpack();
    ++packed_tokens_;
    if (is_query())
      count_row<false>(row);
    else
      count_row<true>(row);
    uint16_t code = row_maximum(row, width_);
    if (code >= kInfinity) {
      code = finite_row(row, at);
      row = scratch_.data();
    }
    if (!is_query()) maxima_of_row(row);
    ++token_octaves_[code >> 7];
    if (!seen_ || code >= absmax_) place(row, code, at);
    row_absmax[i] = code;
  }
}

template <bool Signed>
void HeadTables::count_row(const uint16_t* row) {
  uint64_t* histogram = histogram_.data();
  uint64_t* packed = packed_.data();
  const int64_t width = width_;
  for (int64_t c = 0; c < width; ++c) {
    const uint16_t bits = row[c], code = magnitude_code(bits);
    ++histogram[code];
    packed[((Signed ? bits : code) >> 7) * width + c] += kWords[bits & 127];
  }
}

void HeadTables::maxima_of_row(const uint16_t* row) {
  int16_t* absmax = channel_absmax_.data();
  for (int64_t c = 0; c < width_; ++c) absmax[c] = std::max(absmax[c], static_cast<int16_t>(row[c] & kMagnitude));
  double* squares = pair_squares_.data();
  // A square root is monotonous, hence taken once, at the end.
  if (pair_bound_ == PairBound::Neox) {
    for (int64_t p = 0; p < n_pairs_; ++p) squares[p] = std::max(squares[p], squared_norm(row[p], row[p + n_pairs_]));
  } else {
    for (int64_t p = 0; p < n_pairs_; ++p) squares[p] = std::max(squares[p], squared_norm(row[2 * p], row[2 * p + 1]));
  }
}

/// Leaves the row's finite values, and zeros for the others, in scratch_; returns their largest code. The run is going
/// to fail (Observer::layer_done), but the message has to name the first such value whatever the order of batches.
uint16_t HeadTables::finite_row(const uint16_t* row, const Provenance& at) {
  for (int64_t c = 0; c < width_; ++c) {
    const uint16_t code = magnitude_code(row[c]);
    scratch_[static_cast<size_t>(c)] = code < kInfinity ? row[c] : 0;
    if (code < kInfinity) continue;
    Provenance here = at;
    here.channel = c;
    keep_non_finite({here, code > kInfinity});
  }
  return row_maximum(scratch_.data(), width_);
}

/// `code` is the largest of `row` and not below the largest so far: keep the first place among equals.
void HeadTables::place(const uint16_t* row, uint16_t code, Provenance at) {
  const auto first = std::find_if(row, row + width_, [code](uint16_t bits) { return magnitude_code(bits) == code; });
  at.channel = first - row;
  keep_absmax(code, at);
}

void HeadTables::keep_absmax(uint16_t code, const Provenance& at) {
  if (!seen_ || code > absmax_ || (code == absmax_ && at < where_)) where_ = at;
  absmax_ = std::max(absmax_, code);
  seen_ = true;
}

void HeadTables::keep_non_finite(const NonFinite& found) {
  if (!non_finite_ || found.where < non_finite_->where) non_finite_ = found;
}

void HeadTables::add(const CountedHead& counted) {
  for (int64_t c = 0; c < kCodes; ++c)
    if (counted.codes[c] != 0) histogram_.data()[c] += counted.codes[c];
  for (size_t o = 0; o < token_octaves_.size(); ++o) token_octaves_[o] += counted.token_octaves[o];
  for (size_t c = 0; c < channel_absmax_.size(); ++c)
    channel_absmax_[c] = std::max(channel_absmax_[c], static_cast<int16_t>(counted.channel_absmax[c]));
  for (size_t p = 0; p < pair_squares_.size(); ++p)
    pair_squares_[p] = std::max(pair_squares_[p], std::bit_cast<double>(counted.pairs[p]));
  const int64_t words = n_moments(site_) * width_;
  for (int64_t octave = 0; octave < kFiniteOctaves; ++octave) {
    if (!octave_used(octave)) continue;
    const uint64_t* from = counted.moments + octave * counted.octave_words;
    int64_t* to = moments_.data() + octave * words;
    for (int64_t i = 0; i < words; ++i) to[i] += static_cast<int64_t>(from[i]);
  }
  if (counted.absmax) keep_absmax(*counted.absmax, counted.where);
  if (counted.non_finite) keep_non_finite(*counted.non_finite);
}

bool HeadTables::octave_used(int64_t octave) const {
  const uint64_t* codes = histogram_.data() + octave * 128;
  return std::any_of(codes, codes + 128, [](uint64_t n) { return n != 0; });
}

/// Moves the packed sums into moments_. The row of infinities and NaNs goes nowhere.
void HeadTables::unpack() {
  for (int64_t octave = 0; octave < kOctaves; ++octave) {
    if (!octave_used(octave)) continue;
    unpack_row(octave);
    if (!is_query()) unpack_row(kOctaves + octave);
  }
  packed_tokens_ = 0;
}

void HeadTables::unpack_row(int64_t row) {
  const int64_t octave = row % kOctaves, sign = row < kOctaves ? 1 : -1;
  const int64_t hidden = octave == 0 ? 0 : 128;  // the leading bit that normal numbers do not store
  uint64_t* words = packed_.data() + row * width_;
  int64_t* out = moments_.data() + octave * n_moments(site_) * width_;
  for (int64_t c = 0; c < width_; ++c) {
    const uint64_t word = words[c];
    words[c] = 0;
    const auto count = static_cast<int64_t>(word & kCountMask);
    const auto sum = static_cast<int64_t>(word >> kSumShift & kSumMask);
    const auto square = static_cast<int64_t>(word >> kSquareShift);
    const int64_t sum_m = sum + hidden * count, sum_m2 = square + 2 * hidden * sum + hidden * hidden * count;
    if (is_query()) {
      out[c] += sum_m2;
      continue;
    }
    out[c] += count;
    out[width_ + c] += sum_m;
    out[2 * width_ + c] += sum_m2;
    out[3 * width_ + c] += sign * sum_m;
  }
}

HeadStatistics HeadTables::encode_head() const {
  HeadStatistics head;
  const uint64_t* codes = histogram_.data();
  MagnitudeHistogram& h = head.histogram;
  h.zeros = codes[0];
  h.infinities = codes[kInfinity];
  for (int64_t c = kInfinity + 1; c < kCodes; ++c) h.nans += codes[c];
  for (int64_t c = 1; c < kInfinity; ++c)
    if (codes[c] != 0) h.counts.emplace_back(static_cast<uint16_t>(c), codes[c]);
  h.counts.shrink_to_fit();
  head.absmax = absmax_;
  head.where = where_;
  for (size_t octave = 0; octave < token_octaves_.size(); ++octave)
    if (token_octaves_[octave] != 0)
      head.token_octaves.emplace_back(static_cast<uint8_t>(octave), token_octaves_[octave]);
  return head;
}

std::vector<ChannelStatistics> HeadTables::encode_channels() {
  unpack();
  std::vector<int64_t> octaves;
  for (int64_t octave = 0; octave < kFiniteOctaves; ++octave)
    if (octave_used(octave)) octaves.push_back(octave);
  std::vector<ChannelStatistics> channels(static_cast<size_t>(width_));
  for (int64_t c = 0; c < width_; ++c) {
    ChannelStatistics& channel = channels[static_cast<size_t>(c)];
    if (!is_query()) channel.absmax = static_cast<uint16_t>(channel_absmax_[static_cast<size_t>(c)]);
    for (const int64_t octave : octaves) {
      const int64_t* sums = moments_.data() + octave * n_moments(site_) * width_ + c;
      if (sums[0] == 0) continue;
      const auto o = static_cast<uint8_t>(octave);
      channel.octaves.push_back(is_query()
                                    ? OctaveMoments{o, 0, 0, sums[0], 0}
                                    : OctaveMoments{o, sums[0], sums[width_], sums[2 * width_], sums[3 * width_]});
    }
    channel.octaves.shrink_to_fit();
  }
  return channels;
}

std::vector<double> HeadTables::encode_pairs() const {
  std::vector<double> norms;
  for (const double square : pair_squares_) norms.push_back(std::sqrt(square));
  return norms;
}

}  // namespace kvcal
