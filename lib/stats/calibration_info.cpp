#include "stats/calibration_info.h"

#include "base/sha256.h"
#include "stats/further_members.h"

namespace kvcal {
namespace {

Json set_json(const PromptSetInfo& set) {
  Json json = {{"plan_sha256", set.plan_sha256},
               {"prompts_sha256", set.prompts_sha256},
               {"n_prompts", set.n_prompts},
               {"n_tokens", set.n_tokens},
               {"longest", set.longest}};
  if (set.encoder_tokens) json["encoder_tokens"] = *set.encoder_tokens;
  json["sanity"] = set.sanity ? to_json(*set.sanity) : Json();
  add_further(set.further, json);
  return json;
}

std::optional<int64_t> optional_int(const Json& json, const char* key, std::string_view where) {
  return find_member(json, key) ? std::optional(get_int(json, key, where)) : std::nullopt;
}

PromptSetInfo set_from(const Json& json, const std::string& where) {
  PromptSetInfo set;
  set.plan_sha256 = get_string(json, "plan_sha256", where);
  set.prompts_sha256 = get_string(json, "prompts_sha256", where);
  set.n_prompts = get_int(json, "n_prompts", where);
  set.n_tokens = get_int(json, "n_tokens", where);
  set.longest = get_int(json, "longest", where);
  set.encoder_tokens = optional_int(json, "encoder_tokens", where);
  if (const Json* sanity = find_member(json, "sanity")) set.sanity = sanity_info_from(*sanity, where + "sanity.");
  set.further = further_members(json, set_json(set));
  return set;
}

Json merged_json(const MergedInfo& merged) {
  Json sets = Json::array();
  for (const PromptSetInfo& set : merged.sets) sets.push_back(set_json(set));
  Json json = {{"exact_passes", merged.exact_passes}, {"sets", sets}};
  add_further(merged.further, json);
  return json;
}

MergedInfo merged_from(const Json& json) {
  const Json* sets = find_member(json, "sets");
  if (!sets || !sets->is_array()) fail("calibration.merged has no list 'sets'");
  MergedInfo merged;
  merged.exact_passes = get_int(json, "exact_passes", "calibration.merged.");
  for (size_t i = 0; i < sets->size(); ++i)
    merged.sets.push_back(set_from((*sets)[i], "calibration.merged.sets[" + std::to_string(i) + "]."));
  merged.further = further_members(json, merged_json(merged));
  return merged;
}

}  // namespace

void check_digests(const CalibrationInfo& calibration) {
  check_digest("prompts_sha256", calibration.prompts_sha256);
  check_digest("plan_sha256", calibration.plan_sha256);
}

Json to_json(const CalibrationInfo& c) {
  Json json = {{"prompts_sha256", c.prompts_sha256},
               {"plan_sha256", c.plan_sha256},
               {"n_prompts", c.n_prompts},
               {"n_tokens", c.n_tokens},
               {"longest", c.longest},
               {"max_length", c.max_length},
               {"passes", c.passes},
               {"precision", c.precision},
               {"isa", c.isa},
               {"tool_version", c.tool_version}};
  if (!c.activation_quant.empty()) json["activation_quant"] = c.activation_quant;
  if (c.encoder_tokens) json["encoder_tokens"] = *c.encoder_tokens;
  if (c.merged) json["merged"] = merged_json(*c.merged);
  add_further(c.further, json);
  return json;
}

CalibrationInfo calibration_info_from(const Json& json) {
  constexpr const char* kWhere = "calibration.";
  CalibrationInfo c;
  c.prompts_sha256 = get_string(json, "prompts_sha256", kWhere);
  c.plan_sha256 = get_string(json, "plan_sha256", kWhere);
  c.n_prompts = get_int(json, "n_prompts", kWhere);
  c.n_tokens = get_int(json, "n_tokens", kWhere);
  c.longest = get_int(json, "longest", kWhere);
  c.max_length = get_int(json, "max_length", kWhere);
  c.passes = get_int(json, "passes", kWhere);
  c.precision = get_string(json, "precision", kWhere);
  c.isa = get_string(json, "isa", kWhere);
  c.tool_version = get_string(json, "tool_version", kWhere);
  c.activation_quant = get_string_or(json, "activation_quant", "", kWhere);
  c.encoder_tokens = optional_int(json, "encoder_tokens", kWhere);
  if (const Json* merged = find_member(json, "merged")) c.merged = merged_from(*merged);
  c.further = further_members(json, to_json(c));
  return c;
}

Json to_json(const SanityInfo& s) {
  Json json = {{"mean_nll", s.mean_nll}, {"uniform_nll", s.uniform_nll}, {"n_tokens", s.n_tokens}};
  add_further(s.further, json);
  return json;
}

SanityInfo sanity_info_from(const Json& json, std::string_view where) {
  SanityInfo s;
  s.mean_nll = get_number(json, "mean_nll", where);
  s.uniform_nll = get_number(json, "uniform_nll", where);
  s.n_tokens = get_int(json, "n_tokens", where);
  s.further = further_members(json, to_json(s));
  return s;
}

}  // namespace kvcal
