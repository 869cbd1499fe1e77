// Rotary position embedding as config.json describes it, turned into frequencies.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "ops/ops.h"

namespace kvcal {

/// What a family assumes where the config is silent.
struct RopeDefaults {
  double theta = 10000;
  double partial_rotary_factor = 1;
};

/// Reads `rope_parameters` or the older `rope_scaling` and top-level keys of a (text) config and computes the inverse
/// frequencies for heads of `head_dim` channels. Types: default, linear, llama3, yarn, dynamic (with factor or alpha),
/// longrope, proportional (turns the whole head, most pairs by no angle); mRoPE sections choose the position row of
/// each pair. Frequencies follow the reference framework's float32 arithmetic. Throws for unknown types, missing
/// parameters and parameters out of range.
RopeSpec read_rope(const Json& config, int64_t head_dim, const RopeDefaults& defaults);

/// The (text) config of a class that always turns by sections of mRoPE, also where the config is silent: `sections`
/// then. Throws when mrope_interleaved says otherwise than the class.
Json with_mrope_sections(const Json& text, const std::vector<int>& sections, bool interleaved);

/// RoPE of the rope part of MLA (DeepSeek): pairs side by side unless `rope_interleave` is off; types default and yarn,
/// of which part of the magnitude is in the softmax scale instead.
struct LatentRope {
  RopeSpec spec;
  double softmax_factor = 1;
};
LatentRope read_latent_rope(const Json& config, int64_t rope_dim);

/// The rope parameters of one layer kind as a config that read_rope() takes: from rope_parameters {"full_attention":
/// {..}, "sliding_attention": {..}}, or nullopt where they are not by kind.
std::optional<Json> rope_config_of_kind(const Json& config, const std::string& kind);

/// longrope has two lists of frequencies: a server takes the long one for all positions when it allows more than this
/// many tokens. 0 for other types. The limit is what parse_model was told, by default the config's own.
int64_t longrope_switch(const Json& config, int64_t head_dim);

/// The base of the frequencies by which a tower's patches turn, by rows and columns. Throws Error for a rope_type other
/// than axial, which older configs call default.
double read_axial_theta(const Json& vision, double fallback);

/// The first half of a head's pairs turns by the column (row 1 of the positions), the second one by the row (row 0),
/// with the same frequencies: those of half a head.
RopeSpec columns_then_rows(int64_t head_dim, double theta);

/// Rows of positions that the config's RoPE needs: 3 with mRoPE sections, else 1.
int64_t rope_position_axes(const RopeSpec& spec);

}  // namespace kvcal
