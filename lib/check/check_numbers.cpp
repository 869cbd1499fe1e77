// Numbers of any document, before anything is known about its shape.
#include <cfloat>
#include <cmath>

#include "base/json_text.h"
#include "base/number_text.h"
#include "check/artifact_checks.h"

namespace kvcal {

std::string number_text(double x) {
  const bool beyond_float = std::isfinite(x) && std::fabs(x) > static_cast<double>(FLT_MAX);
  return beyond_float ? shortest_double(x) : float_text(static_cast<float>(x));
}

namespace {

bool is_finite_float(double x) { return std::isfinite(x) && std::fabs(x) <= static_cast<double>(FLT_MAX); }

void check_scale(const Json& value, const std::string& path, Report& report) {
  if (!value.is_number()) return;  // the schema says so
  constexpr double kEpsilonOfFloat = 1.1920929e-07;
  const double scale = value.get<double>();
  const auto add = [&](const char* rule, const char* expected) {
    report.add(rule, path, std::string(rule_named(rule).meaning), expected, number_text(scale));
  };
  if (!is_finite_float(scale)) return add("S01", "a finite float32");
  if (!(scale > 0)) return add("S02", "more than 0");
  if (scale < static_cast<double>(FLT_MIN)) return add("N01", "at least 1.1754944e-38");
  if (std::fabs(scale / kEpsilonOfFloat - 1) < 1e-3) return add("S03", "a measured scale");
}

void check_magnitude(const Json& value, const std::string& path, bool may_be_zero, Report& report) {
  if (!value.is_number()) return;
  const double x = value.get<double>();
  if (!is_finite_float(x))
    report.add("K06", path, "the measured magnitude", "a finite float32", number_text(x));
  else if (x < 0 || (x == 0 && !may_be_zero))
    report.add("N02", path, "the largest magnitude", "more than 0", number_text(x));
}

template <class Check>
void each(const Json& object, const char* key, const std::string& path, Check check) {
  const Json& list = list_at(object, key);
  for (size_t i = 0; i < list.size(); ++i) check(list[i], path + "." + key + "[" + std::to_string(i) + "]");
}

void check_site(const Json& site, const std::string& path, Report& report) {
  const auto scale = [&](const Json& value, const std::string& at) { check_scale(value, at, report); };
  const auto magnitude = [&](const Json& value, const std::string& at) { check_magnitude(value, at, false, report); };
  if (const Json* value = find_member(site, "scale")) scale(*value, path + ".scale");
  each(site, "scale_per_head", path, scale);
  each(site, "scale_per_channel", path, scale);
  for (const char* key : {"absmax", "absmax_latent", "absmax_rope", "envelope"})
    if (const Json* value = find_member(site, key)) magnitude(*value, path + "." + key);
  each(site, "absmax_per_head", path, magnitude);
  each(site, "absmax_by_position", path,
       [&](const Json& value, const std::string& at) { check_magnitude(value, at, true, report); });
  if (const Json* n = find_member(site, "observations"); n && n->is_number_integer() && n->get<double>() <= 0)
    report.add("K01", path + ".observations", "the number of tokens observed", "1 or more", n->dump());
}

/// A scale for one of key and value only: servers would copy it to the other.
void check_pair(const Json& layer, const std::string& path, Report& report) {
  const auto has = [&](const char* site) { return find_member(object_at(layer, site), "scale") != nullptr; };
  if (has("key") == has("value")) return;
  const std::string missing = has("key") ? "value" : "key";
  report.add("S06", path + "." + missing + (find_member(layer, missing) ? ".scale" : ""), "the scale of the " + missing,
             "one for key and one for value", "none");
}

void check_layer(const Json& layer, const std::string& path, Report& report) {
  for (const char* key : {"key", "value", "latent", "query"})
    check_site(object_at(layer, key), path + "." + key, report);
  if (const Json* scale = find_member(object_at(layer, "joint"), "scale"))
    check_scale(*scale, path + ".joint.scale", report);
  check_pair(layer, path, report);
}

void check_server_scales(const Json& document, Report& report) {
  const Json& of_rank = object_at(object_at(object_at(document, "kv_cache"), "scaling_factor"), "0");
  for (const auto& [layer, scale] : of_rank.items()) check_scale(scale, "kv_cache.scaling_factor.0." + layer, report);
}

}  // namespace

void check_numbers(const Json& document, Report& report) {
  report.evaluated({"S01", "S02", "S03", "S06", "N01", "N02", "K01", "K06"});
  const Json& layers = list_at(document, "layers");
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i].is_object()) check_layer(layers[i], "layers[" + std::to_string(i) + "]", report);
  check_server_scales(document, report);
}

}  // namespace kvcal
