#include "artifact/artifact_parts.h"

#include <cfloat>
#include <cmath>

#include "artifact/json_text.h"
#include "base/number_text.h"

namespace kvcal {
namespace {

Json number_or_null(const std::optional<float>& value) { return value ? json_number(*value) : Json(nullptr); }

Json dependence_json(const std::optional<ArtifactDependence>& d, const char* what) {
  if (!d) return nullptr;
  return {{what, d->on}, {"ratio", number_or_null(d->ratio)}};
}

Json coverage_json(const std::optional<ArtifactCoverage>& c) {
  if (!c) return nullptr;
  return {{"beyond_absmax", json_number(c->beyond_absmax)}, {"beyond_headroom", number_or_null(c->beyond_headroom)}};
}

}  // namespace

Json numbers(const std::vector<float>& values) {
  Json out = Json::array();
  for (const float v : values) out.push_back(json_number(v));
  return out;
}

Json where_json(const ArtifactWhere& w) {
  return {{"pass", w.pass},         {"prompt", w.prompt}, {"token", w.token},
          {"position", w.position}, {"head", w.head},     {"channel", w.channel}};
}

Json growth_json(const ArtifactGrowth& g) {
  Json passes = Json::array();
  for (const auto& pass : g.per_pass) passes.push_back(number_or_null(pass));
  return {{"per_pass", passes},
          {"last_quarter", number_or_null(g.last_quarter)},
          {"position", number_or_null(g.position)},
          {"depends_on", dependence_json(g.depends_on, "prompt")},
          {"depends_on_tag", dependence_json(g.depends_on_tag, "tag")},
          {"coverage", coverage_json(g.coverage)},
          {"converged", g.converged}};
}

float float_from(const Json& value, const std::string& path) {
  if (!value.is_number()) fail(member_at(path) + " is " + value.type_name() + ", expected a number");
  const double number = value.get<double>();
  if (!(std::fabs(number) <= static_cast<double>(FLT_MAX))) fail(member_at(path) + " is outside the range of float32");
  return static_cast<float>(number);
}

float at_least_zero(const Json& value, const std::string& path) {
  const float number = float_from(value, path);
  if (number < 0) fail(member_at(path) + " is " + shortest_float(number) + ", expected at least 0");
  return number;
}

std::vector<float> floats(const Object& o, const char* key, ReadFloat read) {
  std::vector<float> out;
  for (const Json& value : o.array(key))
    out.push_back(read(value, o.where + key + "[" + std::to_string(out.size()) + "]"));
  return out;
}

std::optional<float> optional_float(const Object& o, const char* key, ReadFloat read) {
  const Json* member = find_member(o.json, key);
  if (member == nullptr) return std::nullopt;
  return read(*member, o.where + key);
}

ArtifactWhere where_from(const Object& o) {
  ArtifactWhere w;
  w.pass = o.count("pass");
  w.prompt = o.string("prompt");
  w.token = o.count("token");
  w.position = o.count("position");
  w.head = o.count("head");
  w.channel = o.count("channel");
  return w;
}

namespace {

/// Absent from files of earlier versions.
std::optional<ArtifactDependence> dependence_from(const Object& growth, const char* key, const char* what) {
  const Json* member = find_member(growth.json, key);
  if (member == nullptr) return std::nullopt;
  const Object o = growth.object(key);
  return ArtifactDependence{o.string(what), optional_float(o, "ratio", at_least_zero)};
}

std::optional<ArtifactCoverage> coverage_from(const Object& growth) {
  if (find_member(growth.json, "coverage") == nullptr) return std::nullopt;
  const Object o = growth.object("coverage");
  return ArtifactCoverage{at_least_zero(o.at("beyond_absmax"), o.where + "beyond_absmax"),
                          optional_float(o, "beyond_headroom", at_least_zero)};
}

}  // namespace

ArtifactGrowth growth_from(const Object& o) {
  ArtifactGrowth g;
  for (const Json& value : o.array("per_pass")) {
    const std::string path = o.where + "per_pass[" + std::to_string(g.per_pass.size()) + "]";
    g.per_pass.push_back(value.is_null() ? std::nullopt : std::optional(at_least_zero(value, path)));
  }
  g.last_quarter = optional_float(o, "last_quarter", at_least_zero);
  g.position = optional_float(o, "position", float_from);
  g.depends_on = dependence_from(o, "depends_on", "prompt");
  g.depends_on_tag = dependence_from(o, "depends_on_tag", "tag");
  g.coverage = coverage_from(o);
  g.converged = o.boolean("converged");
  return g;
}

}  // namespace kvcal
