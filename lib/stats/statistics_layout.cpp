#include "stats/statistics_layout.h"

#include <algorithm>

#include "base/error.h"

namespace kvcal {
namespace {

constexpr size_t kPlaceFields = 6, kTokenOctaveFields = 3, kSampledFields = 9, kRowFormatFields = 6;
constexpr uint64_t kMostUnits = uint64_t{1} << 24;  // readers or heads: a limit for files from strangers

void check_offsets(const std::vector<uint64_t>& offsets, size_t n_entries, const char* name) {
  if (offsets.front() != 0 || offsets.back() != n_entries || !std::is_sorted(offsets.begin(), offsets.end()))
    fail(std::string(name) + " does not ascend from 0 to the " + std::to_string(n_entries) + " entries there are");
}

void check_length(size_t n, size_t expected, const char* name) {
  if (n != expected)
    fail(std::string(name) + " has " + std::to_string(n) + " entries, expected " + std::to_string(expected));
}

void flatten_heads(const SiteStatistics& site, SiteArrays& a) {
  for (uint64_t h = 0; h < site.heads.size(); ++h) {
    const HeadStatistics& head = site.heads[h];
    a.head_offsets.push_back(a.hist_index.size());
    for (const auto& [code, count] : head.histogram.counts) {
      a.hist_index.push_back(code);
      a.hist_count.push_back(count);
    }
    a.zero.push_back(head.histogram.zeros);
    a.under.push_back(head.histogram.under);
    a.over.push_back(head.histogram.over);
    a.inf.push_back(head.histogram.infinities);
    a.nan.push_back(head.histogram.nans);
    a.absmax.push_back(head.absmax);
    const Provenance& w = head.where;
    a.where.insert(a.where.end(), {w.pass, w.prompt, w.token, w.position, w.head, w.channel});
    for (const auto& [octave, count] : head.token_octaves)
      a.token_octaves.insert(a.token_octaves.end(), {h, uint64_t{octave}, count});
  }
  a.head_offsets.push_back(a.hist_index.size());
}

void flatten_channels(const SiteStatistics& site, SiteArrays& a) {
  for (const ChannelStatistics& channel : site.channels) {
    a.channel_offsets.push_back(a.channel_octave.size());
    a.channel_absmax.push_back(channel.absmax);
    for (const OctaveMoments& o : channel.octaves) {
      a.channel_octave.push_back(o.octave);
      a.channel_count.push_back(o.count);
      a.channel_sum_m.push_back(o.sum_m);
      a.channel_sum_m2.push_back(o.sum_m2);
      a.channel_signed_sum_m.push_back(o.signed_sum_m);
    }
  }
  a.channel_offsets.push_back(a.channel_octave.size());
}

void unflatten_heads(const SiteArrays& a, SiteStatistics& site) {
  check_length(a.hist_count.size(), a.hist_index.size(), "hist_count");
  check_offsets(a.head_offsets, a.hist_index.size(), "head_offsets");
  for (size_t h = 0; h < site.heads.size(); ++h) {
    HeadStatistics& head = site.heads[h];
    for (size_t i = a.head_offsets[h]; i < a.head_offsets[h + 1]; ++i)
      head.histogram.counts.emplace_back(a.hist_index[i], a.hist_count[i]);
    head.histogram.zeros = a.zero[h];
    head.histogram.under = a.under[h];
    head.histogram.over = a.over[h];
    head.histogram.infinities = a.inf[h];
    head.histogram.nans = a.nan[h];
    head.absmax = a.absmax[h];
    const int64_t* w = a.where.data() + h * kPlaceFields;
    head.where = {w[0], w[1], w[2], w[3], w[4], w[5]};
  }
  uint64_t previous = 0;
  for (size_t i = 0; i < a.token_octaves.size(); i += kTokenOctaveFields) {
    const uint64_t head = a.token_octaves[i], octave = a.token_octaves[i + 1];
    if (head < previous || head >= site.heads.size() || octave > 255)
      fail("token_octaves has head " + std::to_string(head) + ", octave " + std::to_string(octave) +
           ", expected heads in order below " + std::to_string(site.heads.size()) + " and octaves up to 255");
    site.heads[head].token_octaves.emplace_back(static_cast<uint8_t>(octave), a.token_octaves[i + 2]);
    previous = head;
  }
}

void unflatten_channels(const SiteArrays& a, const SiteExtents& e, SiteStatistics& site) {
  const size_t n = a.channel_octave.size();
  check_length(a.channel_sum_m2.size(), n, "channel_sum_m2");
  if (!e.is_query) {
    check_length(a.channel_count.size(), n, "channel_count");
    check_length(a.channel_sum_m.size(), n, "channel_sum_m");
    check_length(a.channel_signed_sum_m.size(), n, "channel_signed_sum_m");
  }
  check_offsets(a.channel_offsets, n, "channel_offsets");
  for (size_t c = 0; c < site.channels.size(); ++c) {
    ChannelStatistics& channel = site.channels[c];
    if (!e.is_query) channel.absmax = a.channel_absmax[c];
    channel.octaves.reserve(a.channel_offsets[c + 1] - a.channel_offsets[c]);
    for (size_t i = a.channel_offsets[c]; i < a.channel_offsets[c + 1]; ++i)
      channel.octaves.push_back(e.is_query ? OctaveMoments{a.channel_octave[i], 0, 0, a.channel_sum_m2[i], 0}
                                           : OctaveMoments{a.channel_octave[i], a.channel_count[i], a.channel_sum_m[i],
                                                           a.channel_sum_m2[i], a.channel_signed_sum_m[i]});
  }
}

constexpr int64_t kMostStoredRung = 112;  // ladders begin up to 8 below kLeastRung and end up to 8 above kMostRung

void unflatten_sampled(const SiteArrays& a, int octaves_of_rung, SiteStatistics& site) {
  for (size_t i = 0; i < a.sampled.size(); i += kSampledFields) {
    const uint64_t* s = a.sampled.data() + i;
    const auto rung = static_cast<int64_t>(s[4]);
    if (s[0] > static_cast<uint64_t>(kLastSampledFigure) || s[1] > static_cast<uint64_t>(SampleFormat::Int8) ||
        s[2] > kMostUnits || s[3] > kMostUnits || rung < -kMostStoredRung || rung > kMostStoredRung)
      fail("sampled has figure " + std::to_string(s[0]) + ", format " + std::to_string(s[1]) + ", reader " +
           std::to_string(s[2]) + ", head " + std::to_string(s[3]) + ", rung " + std::to_string(rung) +
           ", which cannot be");
    const SampledSum sum{static_cast<SampledFigure>(s[0]),
                         static_cast<SampleFormat>(s[1]),
                         static_cast<int32_t>(s[2]),
                         static_cast<int32_t>(s[3]),
                         static_cast<int32_t>(rung * octaves_of_rung),
                         s[5],
                         s[6],
                         s[7],
                         s[8]};
    if (!site.sampled.empty() && site.sampled.back().key() >= sum.key()) fail("sampled is not in order");
    site.sampled.push_back(sum);
  }
  if (!a.column_norms.empty()) check_length(a.column_norms.size(), site.channels.size(), "column_norms");
  site.column_norms = a.column_norms;
}

void unflatten_row_formats(const SiteArrays& a, SiteStatistics& site) {
  if (!a.row_formats_int4.empty())
    check_length(a.row_formats_int4.size(), a.row_formats.size() / kRowFormatFields, "row_formats_int4");
  for (size_t i = 0; i < a.row_formats.size(); i += kRowFormatFields) {
    const uint64_t* s = a.row_formats.data() + i;
    if (s[0] >= site.heads.size() ||
        (s[1] != 0 && (s[1] < uint64_t{kLeastEnergyOctave} || s[1] > uint64_t{kMostEnergyOctave})))
      fail("row_formats has head " + std::to_string(s[0]) + ", octave " + std::to_string(s[1]) + ", which cannot be");
    RowFormatSum sum{static_cast<int32_t>(s[0]), static_cast<int32_t>(s[1]), s[2], s[3], s[4], s[5]};
    if (!a.row_formats_int4.empty()) sum.int4_error = a.row_formats_int4[i / kRowFormatFields];
    if (!site.row_formats.empty() && site.row_formats.back().key() >= sum.key()) fail("row_formats is not in order");
    site.row_formats.push_back(sum);
  }
}

}  // namespace

std::string tensor_prefix(int64_t cache, CacheSite site) {
  return "c" + std::to_string(cache) + "." + std::string(name_of(site)) + ".";
}

bool site_exists(const KvLayout& layout, CacheSite site) {
  return heads_of(layout, site) > 0 && width_of(layout, site) > 0;
}

SiteExtents extents_of(const KvLayout& layout, CacheSite site, int64_t n_passes, int64_t n_prompts) {
  SiteExtents extents;
  extents.heads = heads_of(layout, site);
  extents.width = width_of(layout, site);
  extents.pairs = pairs_of(layout, site);
  extents.n_passes = n_passes;
  extents.n_prompts = n_prompts;
  extents.is_query = site == CacheSite::Query;
  extents.weighted = site == CacheSite::Value || site == CacheSite::Latent;
  extents.sampled = site != CacheSite::Rope;
  extents.has_row_formats = site != CacheSite::Query;
  extents.has_int4 = site == CacheSite::Key || site == CacheSite::Value;
  return extents;
}

SiteArrays flatten(const SiteStatistics& site) {
  SiteArrays a;
  flatten_heads(site, a);
  flatten_channels(site, a);
  a.pair_norm = site.pair_norm;
  a.position_absmax = site.position_absmax;
  a.prompt_absmax = site.prompt_absmax;
  a.n_tokens = {site.n_tokens};
  for (const SampledSum& s : site.sampled)
    a.sampled.insert(a.sampled.end(), {static_cast<uint64_t>(s.figure), static_cast<uint64_t>(s.format),
                                       static_cast<uint64_t>(s.reader), static_cast<uint64_t>(s.head),
                                       static_cast<uint64_t>(int64_t{s.rung}), s.rows, s.tokens, s.sum, s.worst});
  for (const RowFormatSum& s : site.row_formats)
    a.row_formats.insert(a.row_formats.end(), {static_cast<uint64_t>(s.head), static_cast<uint64_t>(s.octave), s.rows,
                                               s.energy, s.dynamic_error, s.nvfp4_error});
  for (const RowFormatSum& s : site.row_formats)
    if (s.int4_error) a.row_formats_int4.push_back(*s.int4_error);
  a.column_norms = site.column_norms;
  a.kind_absmax = site.kind_absmax;
  a.kind_tokens = site.kind_tokens;
  return a;
}

SiteStatistics unflatten(const SiteArrays& arrays, const SiteExtents& extents) {
  SiteStatistics site;
  site.heads.resize(static_cast<size_t>(extents.heads));
  site.channels.resize(static_cast<size_t>(extents.heads * extents.width));
  unflatten_heads(arrays, site);
  unflatten_channels(arrays, extents, site);
  site.pair_norm = arrays.pair_norm;
  site.position_absmax = arrays.position_absmax;
  site.prompt_absmax = arrays.prompt_absmax;
  site.n_tokens = arrays.n_tokens[0];
  unflatten_sampled(arrays, extents.octaves_of_rung, site);
  unflatten_row_formats(arrays, site);
  site.kind_absmax = arrays.kind_absmax;
  site.kind_tokens = arrays.kind_tokens;
  return site;
}

}  // namespace kvcal
