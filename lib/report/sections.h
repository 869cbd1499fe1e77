// The sections of the page, one file each. Each returns markup, or "" where there is nothing to show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"
#include "solve/format.h"

namespace kvcal {

std::string style_sheet();
std::string summary_section(const ReportInput& input);
std::string layers_section(const ReportInput& input);
std::string formats_section(const ReportInput& input);
std::string heat_map_section(const ReportInput& input);
std::string histogram_section(const ReportInput& input);
std::string growth_section(const ReportInput& input);
std::string outlier_section(const ReportInput& input);
std::string evaluation_section(const ReportInput& input);
std::string provenance_section(const ReportInput& input);

/// An answer with a sign of its own, so that color is not needed to tell them apart.
std::string badge(ScaleNeed scale);
std::string badge(Fitness fp8);

/// "layer 3", or "MTP layer".
std::string layer_title(const ReportInput& input, const ArtifactLayer& layer);

/// "layer 3 key"
std::string site_title(const ReportInput& input, const ArtifactLayer& layer, std::string_view site);

/// The cache of a layer, or null without statistics.
const CacheStatistics* cache_of(const ReportInput& input, const ArtifactLayer& layer);

/// The measured site of that name: "key", "value", "query", or "latent", the whole row of an MLA cache.
SiteStatistics measured_site(const CacheStatistics& cache, std::string_view site);

}  // namespace kvcal
