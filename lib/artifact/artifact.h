// kv-cache-scales.json: the program's result as plain data, and as text that is equal byte for byte for equal inputs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "solve/options.h"
#include "solve/pow2.h"
#include "solve/prompts_beyond.h"
#include "solve/verdict.h"
#include "stats/calibration_info.h"
#include "stats/model_info.h"

namespace kvcal {

constexpr const char* kArtifactFormat = "kv-cache-scales";
constexpr const char* kArtifactVersion = "1.4";
/// A file without states has the bytes, and so the version, that it had before there were any.
constexpr const char* kArtifactVersionWithoutStates = "1.3";
constexpr const char* kArtifactSchemaFile = "kv-cache-scales.v1.schema.json";  // in schemas/

/// Where the largest magnitude was seen.
struct ArtifactWhere {
  int64_t pass = 0;
  std::string prompt;  // id
  int64_t token = 0, position = 0, head = 0, channel = 0;
  bool operator==(const ArtifactWhere&) const = default;
};

/// Largest over heads (value: and channels; latent: parts), at the scale and at 1.0. Noise: keys and latent rows only,
/// in nats.
struct ArtifactError {
  float at_scale = 0, at_one = 0;  // relative RMS of one round trip
  float clipped_at_scale = 0, clipped_at_one = 0;
  float lost_at_scale = 0, lost_at_one = 0;
  std::optional<float> noise_at_scale, noise_at_one, dominating_at_scale;
  bool operator==(const ArtifactError&) const = default;
};

/// What a range hangs on (solve/dependence.h): a prompt's id or a tag; without it absmax falls by this factor, none
/// where nothing stays.
struct ArtifactDependence {
  std::string on;
  std::optional<float> ratio;
  bool operator==(const ArtifactDependence&) const = default;
};

/// Chances that a new prompt goes beyond the range; see solve/range_coverage.h for what they assume.
struct ArtifactCoverage {
  float beyond_absmax = 0;
  std::optional<float> beyond_headroom;
  bool operator==(const ArtifactCoverage&) const = default;
};

/// Relative growth of the absmax; see solve/convergence.h for the rule.
struct ArtifactGrowth {
  std::vector<std::optional<float>> per_pass;
  std::optional<float> last_quarter, position;
  std::optional<ArtifactDependence> depends_on, depends_on_tag;
  std::optional<ArtifactCoverage> coverage;
  bool converged = false;
  bool operator==(const ArtifactGrowth&) const = default;
};

/// The two parts of an MLA row under the row's scale.
struct ArtifactParts {
  float absmax_latent = 0, absmax_rope = 0;
  ArtifactError error_latent, error_rope;
  bool operator==(const ArtifactParts&) const = default;
};

struct ArtifactSite {
  float scale = 0;
  std::vector<float> scale_per_head;     // granularity head only
  std::vector<float> scale_per_channel;  // key, value; granularity channel only: [n_kv_heads · head_dim]
  float absmax = 0;
  std::optional<ArtifactParts> parts;  // latent only
  std::optional<float> envelope;       // keys, latent: bound at any position
  std::optional<bool> uses_envelope;   // where there is an envelope: whether the scale provides for it
  uint64_t observations = 0;           // tokens
  std::vector<float> absmax_per_head;  // key, value, latent per KV head; query per query head; 0: zero throughout
  /// Why the scale, or that of a head, is not 1.0, each reason once. None: the policy does not seek 1.0, or the file is
  /// older than 1.2.
  std::optional<std::vector<Departure>> departs;
  std::vector<int> zero_heads;  // key, value, query: heads that are zero throughout, ascending
  Assessment assessment;        // figures as float32 holds them
  ArtifactError error;
  ArtifactWhere where;
  ArtifactGrowth growth;
  std::vector<float> absmax_by_position;  // bucket 0: position 0; bucket b: positions 2^(b-1) .. 2^b - 1
  Verdict verdict() const { return verdict_of(assessment); }
  /// The finest there are: of channels, of heads, or the one of the site.
  std::vector<float> scales() const;
  bool operator==(const ArtifactSite&) const = default;
};

/// One scale for key and value together.
struct ArtifactJoint {
  float scale = 0;
  Verdict key = Verdict::Neutral, value = Verdict::Neutral;
  bool loses_key = false, loses_value = false;  // keep16 with this scale, but not with its own
  float lost_key = 0, lost_value = 0, noise = 0;
  Verdict verdict() const { return std::max(key, value); }
  bool operator==(const ArtifactJoint&) const = default;
};

struct ArtifactLayer {
  int index = 0;
  std::string name;  // with the checkpoint's own prefix: "model.language_model.layers.3.self_attn"
  std::string kind;  // "gqa", "mla"
  int64_t n_heads = 0, n_kv_heads = 0, head_dim_k = 0, head_dim_v = 0;
  ArtifactSite key, value, query;
  ArtifactJoint joint;
  ArtifactSite latent;  // "mla": instead of key, value and joint
  bool is_mla() const { return kind == "mla"; }
  bool operator==(const ArtifactLayer&) const = default;
};

/// What one rounding of a state to E4M3 does to it, the largest over heads, in the words of ArtifactError. It says
/// nothing of how the errors of many roundings add up.
struct ArtifactStateError {
  float at_one = 0, clipped_at_one = 0, lost_at_one = 0;
  float at_range = 0, lost_at_range = 0;  // at the scale of one number for the state, absmax / 448
  bool operator==(const ArtifactStateError&) const = default;
};

/// The recurrent state of a layer, as it was counted. It has no scale, because no server takes one.
struct ArtifactState {
  int index = 0;
  std::string kind;                         // of layers_without_kv; of a layer with a cache, too, "mamba2"
  int64_t heads = 0, keys = 0, values = 0;  // stats/state_statistics.h
  uint64_t observations = 0;                // states
  float absmax = 0;
  std::vector<float> absmax_per_head;
  std::vector<float> absmax_by_position;  // buckets as those of sites, by tokens before the last that it has seen
  ArtifactStateError error;
  ArtifactWhere where;  // channel: an index in the head
  ArtifactGrowth growth;
  bool operator==(const ArtifactState&) const = default;
};

/// A site that a layer has, by the name of its member.
struct NamedSite {
  const char* name;
  const ArtifactSite* site;
};

/// What the layer keeps in its cache: key and value, or latent.
std::vector<NamedSite> cached_sites(const ArtifactLayer& layer);

/// These, and query.
std::vector<NamedSite> sites_of(const ArtifactLayer& layer);

struct ArtifactQuantization {
  std::string dtype;  // number format
  double max = 0;     // largest magnitude it stores
  Granularity granularity = Granularity::Tensor;
  std::string policy;
  std::optional<double> headroom;    // absmax, pow2
  std::optional<double> percentile;  // percentile
  int64_t max_model_len = 0;
  AssessmentLimits limits;
  bool three_answers = false;  // up to version 1.2, whose answers followed from other rules
  /// Whether the policy takes 1.0 where that is as good, so that a site with another scale departs from it.
  bool seeks_one() const;
  bool operator==(const ArtifactQuantization&) const = default;
};

/// What follows from all sites together; the file's block "calibration" holds it behind what was fed.
struct ArtifactEvidence {
  bool converged = false;               // every site of every layer has
  std::optional<PromptsBeyond> beyond;  // none for fewer than two prompts
  bool says_beyond = true;              // false: from a file of version 1.0
  std::optional<SanityInfo> sanity;     // none: not run
  bool operator==(const ArtifactEvidence&) const = default;
};

struct Artifact {
  std::string model_type;  // the config's own
  ModelInfo model;
  ArtifactQuantization quantization;
  std::vector<ArtifactLayer> layers;  // layers that own a cache, ascending
  std::vector<LayerInfo> layers_without_kv;
  std::vector<ArtifactState> state_layers;  // layers with a recurrent state, ascending; empty: none was counted
  std::vector<ArtifactLayer> mtp_layers;    // of the model's MTP layers, where they were measured
  Json ranges_by = nullptr;                 // artifact/ranges_by.h; null where prompts and tokens are all of one kind
  CalibrationInfo calibration;
  ArtifactEvidence evidence;
  std::vector<float> kv_cache;    // one scale per layer of the model, for --quantization-param-path; empty = left out
  std::string kv_cache_left_out;  // why, when empty
  std::optional<int64_t> source_date_epoch;  // seconds; set by the caller when the user asks for a time stamp
  bool operator==(const Artifact&) const = default;
};

/// A layer with scales, and where it stands: "layers[3]", "mtp_layers[0]".
struct ListedLayer {
  const ArtifactLayer& layer;
  std::string path;
};

/// Of both lists, in this order; refer to the artifact.
std::vector<ListedLayer> listed_layers(const Artifact& artifact);

/// What tables call the row of a layer: "3", or "mtp".
std::string row_name(const Artifact& artifact, const ArtifactLayer& layer);

/// Every site of every layer has.
bool converged(const Artifact& artifact);

Json to_json(const Artifact& artifact);

/// The file's block: what was fed, and the evidence.
Json calibration_json(const Artifact& artifact);

/// The text of the file, ending in a newline.
std::string artifact_text(const Artifact& artifact);

/// The reverse. Throws Error with the path of the member ("layers[3].key.scale") that is missing, of the wrong type or
/// out of range; scales must be positive and finite. Reads versions 1.x; members it does not know are dropped.
Artifact artifact_from_json(const Json& json);

/// Reads a file of at most 64 MiB; errors begin with its path.
Artifact read_artifact(const std::filesystem::path& path);

/// Its two halves, for who needs the bytes too. `path` begins each message.
std::string read_artifact_text(const std::filesystem::path& path);
Artifact parse_artifact(std::string_view text, const std::filesystem::path& path);

}  // namespace kvcal
