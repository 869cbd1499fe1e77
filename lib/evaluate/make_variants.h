// The ways to store a cache that a run compares, from scale files, statistics and the names of formats.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "evaluate/formats.h"
#include "evaluate/state_formats.h"
#include "evaluate/variant.h"
#include "model/model_spec.h"
#include "stats/statistics.h"

namespace kvcal {

/// Everything at scale 1.0, as servers without scales store it: "scale_1.0".
Variant at_one(const ModelSpec& spec, const StoredFormat& format);

/// The scales of a file in its own format. The file is of this model (check_fits()).
Variant at_scales(const ModelSpec& spec, const Artifact& artifact, std::string name);

/// What was measured of a site: magnitudes that rows, moved as the format has it, do not exceed, one, one a head or one
/// a channel; and what they are moved by.
struct SiteRange {
  std::vector<float> largest, means;
};
using RangesOf = std::function<SiteRange(const KvLayout&, CacheSite, const StoredSite&)>;
RangesOf ranges_of(const Statistics& statistics);  // refers to it

/// For a scale file: it knows nothing of single heads and channels, Error where that is asked for.
RangesOf ranges_of(const Artifact& artifact);  // refers to it

/// A format at the scales that its largest number gives these ranges, named like the format.
Variant in_format(const ModelSpec& spec, const StoredFormat& format, const RangesOf& ranges);

/// Throws Error where rows of a cache are no whole number of a format's blocks.
void check_rows(const Variant& variant, const ModelSpec& spec);

/// Keys or values that the variant stores in the file's own format get its scales: what an export of both has.
void take_scales(Variant& variant, const StoredFormat& format, const ModelSpec& spec, const Artifact& artifact);

/// With the scales of keys and values exchanged: a control, worse wherever they differ much. MLA rows stay.
Variant swapped(Variant variant);

/// As servers store it that multiply by a scale what they read and do not divide by it what they write: "undivided".
Variant undivided(Variant variant);

/// One cache alone, the others as they are: "layer_N".
Variant one_cache(const Variant& variant, const KvLayout& layout);

/// The caches as they are, and recurrent states in a format that state_format() has, after every `chunk` tokens of a
/// prompt: "state_bf16", "state_fp8_e4m3_per_row". Error where the model has no such state.
Variant stored_states(const ModelSpec& spec, std::string_view dtype, int64_t chunk = 1);

/// The caches as they are, computed in another order: how far rounding moves predictions that nothing was done to.
/// Error where there is none.
Variant floor_of(const ModelSpec& spec);

/// The caches as they are, and the keys of an indexer in E4M3, as servers store them. Error where the model has none,
/// or servers store them otherwise.
constexpr const char* kIndexKeys = "index_keys";
Variant stored_index_keys(const ModelSpec& spec);

/// Rounds queries too (of MLA the absorbed ones), at what the file says of them; at 1.0 without a file. Dynamic where
/// the keys are.
void round_queries(Variant& variant, const ModelSpec& spec, const Artifact* artifact);

}  // namespace kvcal
