// What was measured, with what, and how the scales were chosen.
#include "base/number_text.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {
namespace {

std::string value_text(const Json& value) {
  return escaped(value.is_string() ? value.get_ref<const std::string&>()
                                   : value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string entry(const std::string& name, const std::string& markup) {
  return "<dt>" + escaped(name) + "</dt><dd>" + markup + "</dd>\n";
}

// All members of a block, as the file has them: a newer version may say more.
std::string entries(const Json& block) {
  std::string out;
  for (const auto& member : block.items()) out += entry(member.key(), value_text(member.value()));
  return out;
}

std::string list(const char* title, const std::string& items) {
  return items.empty() ? "" : std::string("<h3>") + title + "</h3>\n<dl>\n" + items + "</dl>\n";
}

std::string quantization_entries(const ArtifactQuantization& q) {
  std::string out = entry("dtype", escaped(q.dtype)) + entry("largest value", figure_text(q.max)) +
                    entry("granularity", escaped(name_of(q.granularity))) + entry("policy", escaped(q.policy));
  if (q.headroom) out += entry("headroom", figure_text(*q.headroom));
  if (q.percentile) out += entry("percentile", figure_text(*q.percentile));
  if (q.max_model_len > 0) out += entry("max_model_len", grouped(q.max_model_len));
  const auto limit = [](const char* name, double l) { return std::string(name) + " " + figure_text(l) + ", "; };
  return out + entry("limits of keep16",
                     limit("kl", q.limits.kl) + limit("rel", q.limits.rel) + limit("noise", q.limits.noise) +
                         limit("flushed tokens", q.limits.flushed_tokens) + "growth " + figure_text(q.limits.growth) +
                         ", dependence " + figure_text(q.limits.dependence));
}

}  // namespace

std::string provenance_section(const ReportInput& input) {
  const Artifact& a = input.artifact;
  return fold("Model, measurement, scales",
              list("Model", entries(to_json(a.model))) + list("Measurement", entries(calibration_json(a))) +
                  list("Scales", quantization_entries(a.quantization)) +
                  (input.statistics && input.statistics->run.sanity
                       ? list("Sanity of the model", entries(to_json(*input.statistics->run.sanity)))
                       : ""));
}

}  // namespace kvcal
