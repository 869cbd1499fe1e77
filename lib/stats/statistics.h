// What a run has measured, as plain data: integers and exact maxima, so that merging is exact and any policy can be
// solved from it later. The Observer fills it, the statistics file stores it, lib/solve reads it.
//
// Values are counted by their bf16 code without the sign: code = bits & 0x7FFF, |x| = the float whose upper half it is;
// codes 0x7F80 and above are infinity and NaN. Octave o = code >> 7: the exponent field; 0 holds zero and subnormals.
// Significand m of a code: 128 + (code & 127) in octaves 1..254, (code & 127) in octave 0; |x| = m · 2^(max(o,1) -
// 134).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/model_spec.h"
#include "stats/attention_tables.h"
#include "stats/row_formats.h"

namespace kvcal {

/// Latent and Rope are the two parts of an MLA cache's row [latent | rope part], which have nothing in common but their
/// scale; latent_row() puts them together.
enum class CacheSite : uint8_t { Key, Value, Query, Latent, Rope };
inline constexpr size_t kCacheSites = 5;
std::string_view name_of(CacheSite site);  // "key", "value", "query", "latent", "rope"

/// What a cache of this kind shows: key, value, query; of "mla": latent, rope, query.
std::span<const CacheSite> sites_of(const KvLayout& layout);

/// Where a value was seen. Ties between equal magnitudes go to the smallest tuple in this order.
struct Provenance {
  int64_t pass = 0;      // 1, 2, ...
  int64_t prompt = 0;    // index in RunRecord::prompt_ids
  int64_t token = 0;     // in the prompt
  int64_t position = 0;  // in the sequence
  int64_t head = 0, channel = 0;
  auto operator<=>(const Provenance&) const = default;
};

/// Counts of one head, sparse, by ascending code. Zeros, infinities and NaNs are counted apart.
struct MagnitudeHistogram {
  std::vector<std::pair<uint16_t, uint64_t>> counts;  // codes 1 .. 0x7F7F
  uint64_t zeros = 0, infinities = 0, nans = 0;
  uint64_t under = 0, over = 0;  // outside a backend's range; 0 where it counts every code, as all do so far
  uint64_t observations() const;
};

/// Moments of one channel (of one head) within one octave. Query keeps sum_m2 only; the others are 0.
struct OctaveMoments {
  uint8_t octave = 0;
  int64_t count = 0, sum_m = 0, sum_m2 = 0, signed_sum_m = 0;
};

struct ChannelStatistics {
  uint16_t absmax = 0;                 // code; 0 for queries
  std::vector<OctaveMoments> octaves;  // ascending, none empty
};

struct HeadStatistics {
  MagnitudeHistogram histogram;
  uint16_t absmax = 0;                                      // code of the largest finite magnitude
  Provenance where;                                         // of that value
  std::vector<std::pair<uint8_t, uint64_t>> token_octaves;  // tokens by the octave of their largest magnitude
};

struct SiteStatistics {
  std::vector<HeadStatistics> heads;
  std::vector<ChannelStatistics> channels;  // [heads · width], width = head_dim of the site
  std::vector<double> pair_norm;          // key, rope: [n_kv_heads · rotary_dim / 2], largest sqrt(a² + b²) per pair
  std::vector<uint16_t> position_absmax;  // code by bucket b: positions [2^(b-1), 2^b), bucket 0 is position 0
  std::vector<uint16_t> prompt_absmax;    // code, [n_passes][n_prompts]
  // By kind of token (base/token_kind.h); both empty where kinds were not told apart.
  std::vector<uint16_t> kind_absmax;      // code, [n_passes][kTokenKinds]
  std::vector<uint64_t> kind_tokens;      // rows, [kTokenKinds]
  uint64_t n_tokens = 0;                  // rows seen
  std::vector<SampledSum> sampled;        // key, query: divergences; value: changes; latent: both; sorted by key()
  std::vector<RowFormatSum> row_formats;  // sorted by key(); not of queries, and only where rows were on the host
  std::vector<float> column_norms;  // value, latent: [channels], of the output projection, all query heads of a channel
                                    // together, of the reading layer with the largest; empty: not known
};

struct CacheStatistics {
  KvLayout layout;
  std::array<SiteStatistics, kCacheSites> sites;  // by CacheSite; empty where the kind has no such site
  SiteStatistics& at(CacheSite s) { return sites[static_cast<size_t>(s)]; }
  const SiteStatistics& at(CacheSite s) const { return sites[static_cast<size_t>(s)]; }
};

/// The whole row of an MLA cache: its "heads" are the two parts, its channels (and their places) those of the row, its
/// other maxima those of both.
SiteStatistics latent_row(const CacheStatistics& cache);

float magnitude_of(uint16_t code);
float absmax_of(const SiteStatistics& site);  // over heads

/// Shape of a site: its heads (0 where the kind of cache has no such site), channels per head, and RoPE pairs per head
/// whose norms are kept (0 but for keys and rope parts).
int64_t heads_of(const KvLayout& layout, CacheSite site);
int64_t width_of(const KvLayout& layout, CacheSite site);
int64_t pairs_of(const KvLayout& layout, CacheSite site);

/// The two channels of a key head, or of a rope part, that RoPE turns as pair `pair`.
std::pair<int64_t, int64_t> pair_channels(const KvLayout& layout, int64_t pair);

}  // namespace kvcal
