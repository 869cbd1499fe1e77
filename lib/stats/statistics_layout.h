// The tensors of one site in a statistics file: the structs of statistics.h as flat arrays, and one table of names,
// dtypes and shapes that writer and reader share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/token_kind.h"
#include "stats/run_record.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace kvcal {

/// "c3.key.": what the names of a site's tensors begin with.
std::string tensor_prefix(int64_t cache, CacheSite site);

/// False where a cache has no such site: no heads, or heads without channels.
bool site_exists(const KvLayout& layout, CacheSite site);

struct SiteArrays {
  std::vector<uint16_t> hist_index;
  std::vector<uint64_t> hist_count, head_offsets, zero, under, over, inf, nan;
  std::vector<uint16_t> absmax;         // bf16 bits
  std::vector<int64_t> where;           // [heads, 6]
  std::vector<uint64_t> token_octaves;  // [n, 3]: head, octave, tokens
  std::vector<uint16_t> channel_absmax;
  std::vector<uint64_t> channel_offsets;
  std::vector<uint8_t> channel_octave;
  std::vector<int64_t> channel_count, channel_sum_m, channel_sum_m2, channel_signed_sum_m;
  std::vector<double> pair_norm;
  std::vector<uint16_t> position_absmax, prompt_absmax;
  std::vector<uint64_t> n_tokens;  // [1]
  std::vector<uint64_t>
      sampled;  // [n, 9]: figure, format, reader, head, rung, rows, tokens, sum, worst; a rung is two's complement
  std::vector<uint64_t> row_formats;       // [n, 6]: head, octave, rows, energy, dynamic error, NVFP4 error
  std::vector<uint64_t> row_formats_int4;  // [n]: INT4 error; empty where it was not tried
  std::vector<float> column_norms;
  std::vector<uint16_t> kind_absmax;
  std::vector<uint64_t> kind_tokens;
};

/// Fixed extents of a site's tensors.
struct SiteExtents {
  int64_t heads = 0, width = 0, pairs = 0, n_passes = 0, n_prompts = 0;
  bool is_query = false;
  bool sampled = false, weighted = false, has_row_formats = false;  // since version 1.1
  bool has_int4 = false;                                            // since 1.2
  int octaves_of_rung = 1;                                          // between scales of neighboring rungs; 2 before 1.4
  bool has_kinds = false;                                           // since 1.1, where kinds of tokens were told apart
};
SiteExtents extents_of(const KvLayout& layout, CacheSite site, int64_t n_passes, int64_t n_prompts);

/// An extent that is whatever the array has; only ever the first.
constexpr int64_t kAnyExtent = -1;

/// Calls visit(name, dtype, shape, array) for every tensor of a site, in order of name.
template <class Arrays, class Visit>
void for_each_tensor(Arrays& a, const SiteExtents& e, Visit visit) {
  visit("absmax", DType::BF16, Shape{e.heads}, a.absmax);
  if (!e.is_query) {
    visit("channel_absmax", DType::BF16, Shape{e.heads, e.width}, a.channel_absmax);
    visit("channel_count", DType::I64, Shape{kAnyExtent}, a.channel_count);
  }
  visit("channel_octave", DType::U8, Shape{kAnyExtent}, a.channel_octave);
  visit("channel_offsets", DType::U64, Shape{e.heads * e.width + 1}, a.channel_offsets);
  if (!e.is_query) {
    visit("channel_signed_sum_m", DType::I64, Shape{kAnyExtent}, a.channel_signed_sum_m);
    visit("channel_sum_m", DType::I64, Shape{kAnyExtent}, a.channel_sum_m);
  }
  visit("channel_sum_m2", DType::I64, Shape{kAnyExtent}, a.channel_sum_m2);
  if (e.weighted) visit("column_norms", DType::F32, Shape{kAnyExtent}, a.column_norms);
  visit("head_offsets", DType::U64, Shape{e.heads + 1}, a.head_offsets);
  visit("hist_count", DType::U64, Shape{kAnyExtent}, a.hist_count);
  visit("hist_index", DType::U16, Shape{kAnyExtent}, a.hist_index);
  visit("inf", DType::U64, Shape{e.heads}, a.inf);
  if (e.has_kinds) {
    const auto kinds = static_cast<int64_t>(kTokenKinds);
    visit("kind_absmax", DType::BF16, Shape{e.n_passes, kinds}, a.kind_absmax);
    visit("kind_tokens", DType::U64, Shape{kinds}, a.kind_tokens);
  }
  visit("n_tokens", DType::U64, Shape{1}, a.n_tokens);
  visit("nan", DType::U64, Shape{e.heads}, a.nan);
  visit("over", DType::U64, Shape{e.heads}, a.over);
  if (e.pairs > 0) visit("pair_norm", DType::F64, Shape{e.heads, e.pairs}, a.pair_norm);
  visit("position_absmax", DType::BF16, Shape{kAnyExtent}, a.position_absmax);
  visit("prompt_absmax", DType::BF16, Shape{e.n_passes, e.n_prompts}, a.prompt_absmax);
  if (e.has_row_formats) visit("row_formats", DType::U64, Shape{kAnyExtent, 6}, a.row_formats);
  if (e.has_int4) visit("row_formats_int4", DType::U64, Shape{kAnyExtent}, a.row_formats_int4);
  if (e.sampled) visit("sampled", DType::U64, Shape{kAnyExtent, 9}, a.sampled);
  visit("token_octaves", DType::U64, Shape{kAnyExtent, 3}, a.token_octaves);
  visit("under", DType::U64, Shape{e.heads}, a.under);
  visit("where", DType::I64, Shape{e.heads, 6}, a.where);
  visit("zero", DType::U64, Shape{e.heads}, a.zero);
}

SiteArrays flatten(const SiteStatistics& site);

/// The reverse. Arrays have the shapes of the table above; what they say about each other is checked here as far as the
/// structs need it (offsets ascending and within the lists, lists of equal length), the rest by check_statistics().
/// Throws Error.
SiteStatistics unflatten(const SiteArrays& arrays, const SiteExtents& extents);

}  // namespace kvcal
