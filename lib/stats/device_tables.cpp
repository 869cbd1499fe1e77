#include "stats/device_tables.h"

#include <algorithm>

#include "base/position_bucket.h"

namespace kvcal {
namespace {

TapShape shape_of(const KvLayout& layout, CacheSite site, int64_t n_cells) {
  return {heads_of(layout, site),
          width_of(layout, site),
          pairs_of(layout, site),
          layout.pair_bound == PairBound::Gptj,
          site == CacheSite::Query ? TapSums::Energy : TapSums::Moments,
          n_cells};
}

TapShape shape_of(const StateLayout& layout, int64_t n_cells) {
  return {layout.heads, layout.head_size(), 0, false, TapSums::None, n_cells};
}

int64_t bytes_of(const TapShape& shape) { return layout_of(shape).words * static_cast<int64_t>(sizeof(uint64_t)); }

int64_t cells_of(const RowRanks& ranks) { return static_cast<int64_t>(ranks.cells().size()); }

/// The tables' words on the host. Of the moments, which are most of them, only the octaves that were seen.
class FetchedWords {
 public:
  FetchedWords(Ops& device, const Ops::Mark& closed, const TapTables& tables)
      : shape_(tables.shape),
        at_(layout_of(shape_)),
        words_(at_.words),
        device_(device),
        closed_(closed),
        from_(tables.words) {
    fetch(0, at_.moments);
    const int64_t octave_words = shape_.heads * shape_.sums() * shape_.width;
    for (int64_t first = 0; first < kTapOctaves; ++first) {
      int64_t end = first;
      while (end < kTapOctaves && seen(end)) ++end;
      if (end == first) continue;
      fetch(at_.moments + first * octave_words, (end - first) * octave_words);
      first = end;
    }
  }

  const TapShape& shape() const { return shape_; }
  const TapLayout& at() const { return at_; }
  const uint64_t* from(int64_t word) const { return words_.data() + word; }

 private:
  bool seen(int64_t octave) const {
    for (int64_t h = 0; h < shape_.heads; ++h) {
      const uint64_t* codes = from(at_.codes + h * kTapCodes + octave * 128);
      if (std::any_of(codes, codes + 128, [](uint64_t n) { return n != 0; })) return true;
    }
    return false;
  }

  void fetch(int64_t first, int64_t n) {
    if (n > 0) device_.download_at(closed_, from_.rows(first, n), {words_.data() + first, {n}, DType::U64});
  }

  TapShape shape_;
  TapLayout at_;
  SparseZeros<uint64_t> words_;
  Ops& device_;
  Ops::Mark closed_;
  Tensor from_;
};

Provenance provenance(const RowRanks& ranks, uint64_t place, int64_t head, int64_t width) {
  Provenance at = ranks.row_of(static_cast<int64_t>(place) / width);
  at.head = head;
  at.channel = static_cast<int64_t>(place) % width;
  return at;
}

CountedHead head_of(const FetchedWords& words, const RowRanks& ranks, int64_t head) {
  const TapShape& s = words.shape();
  const TapLayout& at = words.at();
  CountedHead counted;
  counted.codes = words.from(at.codes + head * kTapCodes);
  counted.token_octaves = words.from(at.token_octaves + head * 256);
  counted.channel_absmax = words.from(at.channel_absmax + (s.kept == TapSums::Moments ? head * s.width : 0));
  counted.pairs = words.from(at.pairs + head * s.pairs);
  counted.moments = words.from(at.moments + head * s.sums() * s.width);
  counted.octave_words = s.heads * s.sums() * s.width;
  if (const uint64_t absmax = *words.from(at.absmax + head); absmax != 0) {
    constexpr uint64_t kLastPlace = (uint64_t{1} << kPlaceBits) - 1;
    counted.absmax = static_cast<uint16_t>(absmax >> kPlaceBits);
    counted.where = provenance(ranks, kLastPlace - (absmax & kLastPlace), head, s.width);
  }
  if (const uint64_t found = ~*words.from(at.non_finite + head); found != ~uint64_t{0})
    counted.non_finite = NonFinite{provenance(ranks, found >> 1, head, s.width), (found & 1) != 0};
  return counted;
}

}  // namespace

DeviceTables::DeviceTables(Ops& device, const TapShape& shape, const RowRanks& ranks)
    : device_(device),
      ranks_(ranks),
      tables_(device.tap_tables(shape)),
      kind_tokens_(ranks.plan().kinds.empty() ? 0 : kTokenKinds) {}

DeviceTables::DeviceTables(Ops& device, const KvLayout& layout, CacheSite site, const RowRanks& ranks)
    : DeviceTables(device, shape_of(layout, site, cells_of(ranks)), ranks) {}

DeviceTables::DeviceTables(Ops& device, const StateLayout& layout, const RowRanks& ranks)
    : DeviceTables(device, shape_of(layout, cells_of(ranks)), ranks) {}

int64_t DeviceTables::bytes(const KvLayout& layout, CacheSite site, int64_t n_cells) {
  return bytes_of(shape_of(layout, site, n_cells));
}

int64_t DeviceTables::bytes(const StateLayout& layout, int64_t n_cells) { return bytes_of(shape_of(layout, n_cells)); }

std::vector<TapRows> DeviceTables::describe(const Segment& segment) {
  const std::vector<TapRows> pieces = ranks_.describe(segment);
  for (const TapRows& piece : pieces)
    if (!kind_tokens_.empty())
      kind_tokens_[ranks_.cells()[static_cast<size_t>(piece.cell)].kind] += static_cast<uint64_t>(piece.n_tokens);
  n_buckets_ = std::max(n_buckets_, int64_t{position_bucket(segment.first_position + segment.n_tokens - 1)} + 1);
  n_tokens_ += static_cast<uint64_t>(segment.n_tokens);
  return pieces;
}

void DeviceTables::add(const Tensor& x, const Batch& batch) {
  std::vector<TapRows> rows;
  for (const Segment& s : batch.segments)
    for (const TapRows& piece : describe(s)) rows.push_back(piece);
  device_.accumulate(x, tables_, rows);
}

void DeviceTables::add(std::span<const Tensor> states, std::span<const Segment> last_tokens) {
  std::vector<TapRows> rows;
  for (const Segment& s : last_tokens) {
    rows.push_back(describe(s).front());
    rows.back().row = static_cast<int64_t>(rows.size()) - 1;
  }
  device_.count_states(states, tables_, rows);
}

void DeviceTables::add_cells(const uint64_t* codes, CountedSite& counted) const {
  const auto n_passes = static_cast<size_t>(ranks_.plan().n_passes), n_prompts = ranks_.plan().prompt_ids.size();
  counted.prompt_absmax.resize(n_passes * n_prompts);
  if (!kind_tokens_.empty()) counted.kind_absmax.resize(n_passes * kTokenKinds);
  for (const RowRanks::Cell& cell : ranks_.cells()) {
    const auto code = static_cast<uint16_t>(*codes++);
    const auto pass = static_cast<size_t>(cell.pass - 1);
    const auto raise = [&](uint16_t& to) { to = std::max(to, code); };
    raise(counted.prompt_absmax[pass * n_prompts + static_cast<size_t>(cell.prompt)]);
    if (!counted.kind_absmax.empty()) raise(counted.kind_absmax[pass * kTokenKinds + cell.kind]);
  }
}

template <class Tables>
void DeviceTables::fold(Tables& tables, ThreadPool& pool) const {
  const FetchedWords words(device_, closed_, tables_);
  const TapLayout& at = words.at();
  CountedSite counted;
  counted.position_absmax.assign(words.from(at.positions), words.from(at.positions) + n_buckets_);
  counted.kind_tokens = kind_tokens_;
  counted.n_tokens = n_tokens_;
  add_cells(words.from(at.cells), counted);
  for (int64_t h = 0; h < words.shape().heads; ++h) counted.heads.push_back(head_of(words, ranks_, h));
  tables.add(counted, pool);
}

void DeviceTables::fold_into(SiteTables& site, ThreadPool& pool) const { fold(site, pool); }
void DeviceTables::fold_into(StateTables& states, ThreadPool& pool) const { fold(states, pool); }

}  // namespace kvcal
