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
std::string states_section(const ReportInput& input);
std::string evaluation_section(const ReportInput& input);
std::string evidence_section(const ReportInput& input);
std::string provenance_section(const ReportInput& input);

/// "fp8", "int8": what the words of the answers call the format.
std::string kind_of_format(const Artifact& artifact);

/// Every layer's worst answer, as a row of cells.
std::string layer_map(const ReportInput& input);

/// What the evaluation measured, to stand beside the answers; "" without one.
std::string evaluation_box(const ReportInput& input);

/// Items of what to do, "" where there is nothing to say. `changed`: layers where attention changes most; where an
/// evaluation compared answers, it says what came out.
std::string answers_item(const ReportInput& input, const std::vector<int64_t>& changed);
std::string recipe_item(const ReportInput& input);

/// "Measured: mean KL 0.0192 with these scales, 0.0155 at scale 1.0."; "" where it was not.
std::string measured_without_scales(const ReportInput& input);

/// The variant with the scales of the page, if any is known to have them.
const SavedVariant* variant_shown(const ReportInput& input);

/// Figures with intervals, and variants against each other; "" where the file has none.
std::string conclusion_text(const SavedEvaluation& evaluation);

/// Do the scales matter, is the format fine: a sentence each, with the layers.
std::vector<std::string> answer_sentences(const Artifact& artifact);

/// KL over positions, and layers by sensitivity, where they were measured.
std::string evaluation_charts(const SavedEvaluation& evaluation);

/// Layers that were rounded alone, the one with the largest KL first.
std::vector<const SavedLayer*> by_sensitivity(const SavedEvaluation& evaluation);

/// Tells answers apart where color does not.
std::string_view sign_of(ScaleNeed scale);
std::string_view sign_of(Fitness fp8);

/// Of both answers the one to act on, as the style sheet calls it.
std::string_view urgent_name(ScaleNeed scale, Fitness fp8);

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
