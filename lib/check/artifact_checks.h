// The groups of checks of a scale file, in the order in which they make sense: each relies on what those before it have
// checked.
#pragma once

#include <string>
#include <string_view>

#include "artifact/artifact.h"
#include "check/finding.h"
#include "servers/model_identity.h"
#include "stats/run_record.h"

namespace kvcal {

/// "0.0312" for a float32 or a number of a file.
std::string number_text(double x);

/// Limits are compared in double, figures are stored as float32: on the limit either side is right.
inline bool above(double figure, double limit) { return figure > limit * (1 + 1e-6); }
inline bool below(double figure, double limit) { return figure < limit * (1 - 1e-6); }

/// Rule S15: the share of a format's range that the largest magnitude may take, so that other prompts have room.
inline constexpr double kMostInUse = 0.9;

inline constexpr double kSlack = 1e-5;  // of magnitudes and scales that are stored as float32

/// A number that other conventions divide by, or 0.
int convention_of(double divisor);

/// What a scale more likely is than just too small: undivided (S10), inverted (S09), or that (S14), or nothing.
const char* cause_of_misfit(double scale, double absmax, double max);

/// Format, version, schema, members that nobody knows. What check_numbers found is not said again.
void check_schema_of(const Json& document, std::string_view schema, Report& report);

/// Scales and magnitudes of any document, sound or not: finite, positive, normal.
void check_numbers(const Json& document, Report& report);

/// Of a document with the right types: layers complete, unique, in order; one entry per head; the server's block.
void check_layers(const Json& document, Report& report);

/// Measurements and counts against each other.
void check_measurements(const Artifact& artifact, Report& report);

/// Scales against what was measured, where that is sound.
void check_scales(const Artifact& artifact, Report& report);

/// Recorded damage and verdicts, where the scales are sound.
void check_damage(const Artifact& artifact, Report& report);

/// What is sound, but worth knowing before serving.
void check_quality(const Artifact& artifact, Report& report);

/// What is wrong with a site whose FP8 cache runs at 1.0, as without scales: the id of a rule, "" for nothing. `max`:
/// the format's.
std::string_view fault_at_one(const ArtifactSite& site, double max);

/// What rounding does there, for S28 and S16: "rel 1 of at most 0.125, measured; 45.5 times the error at
/// 0.00048828125".
std::string text_at_one(const Artifact& artifact, const ArtifactSite& site);

/// Rule S27, of a cache that runs at 1.0 throughout: the layers without fault, and what speaks for it.
void check_at_one(const Artifact& artifact, Report& report);

/// Against the checkpoint that is to be served.
void check_model(const Artifact& artifact, const ModelIdentity& model, Report& report);

/// Rule S18 of the text of a scale file.
void check_ranks(std::string_view text, int64_t n_ranks, Report& report);

/// Rule K07 of a statistics file; scale files do not keep what it needs.
void check_rotation(const Statistics& statistics, Report& report);

/// Rule S23: whether the longest sequence measured is shorter than a quarter of what a server allows.
bool is_short_for(int64_t longest, int64_t max_model_len);

}  // namespace kvcal
