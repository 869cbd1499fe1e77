#include <limits>

#include "artifact/artifact_parts.h"
#include "artifact/json_text.h"

namespace kvcal {
namespace {

constexpr int64_t kMostOfAny = int64_t{1} << 24;

int64_t at_least_one(const Object& o, const char* key, int64_t most = std::numeric_limits<int64_t>::max()) {
  const int64_t n = o.count(key, most);
  if (n == 0) fail(member_at(o.where + key) + " is 0, expected at least 1");
  return n;
}

Json state_error_json(const ArtifactStateError& e) {
  return {{"at_one", json_number(e.at_one)},
          {"clipped_at_one", json_number(e.clipped_at_one)},
          {"lost_at_one", json_number(e.lost_at_one)},
          {"at_range", json_number(e.at_range)},
          {"lost_at_range", json_number(e.lost_at_range)}};
}

ArtifactStateError state_error_from(const Object& o) {
  const auto figure = [&](const char* key) { return at_least_zero(o.at(key), o.where + key); };
  return {figure("at_one"), figure("clipped_at_one"), figure("lost_at_one"), figure("at_range"),
          figure("lost_at_range")};
}

ArtifactState state_layer_from(const Object& o) {
  ArtifactState s;
  s.index = static_cast<int>(o.count("index", kMostOfAny));
  s.kind = o.string("kind");
  s.heads = at_least_one(o, "heads", kMostOfAny);
  s.keys = at_least_one(o, "keys", kMostOfAny);
  s.values = at_least_one(o, "values", kMostOfAny);
  s.observations = static_cast<uint64_t>(at_least_one(o, "observations"));
  s.absmax = at_least_zero(o.at("absmax"), o.where + "absmax");
  s.absmax_per_head = floats(o, "absmax_per_head", at_least_zero);
  if (static_cast<int64_t>(s.absmax_per_head.size()) != s.heads)
    fail(member_at(o.where + "absmax_per_head") + " has " + std::to_string(s.absmax_per_head.size()) +
         " numbers, expected " + std::to_string(s.heads) + " (one per head)");
  s.absmax_by_position = floats(o, "absmax_by_position", at_least_zero);
  s.error = state_error_from(o.object("error_fp8_e4m3"));
  s.where = where_from(o.object("where"));
  s.growth = growth_from(o.object("growth"));
  return s;
}

}  // namespace

Json states_json(const std::vector<ArtifactState>& states) {
  Json list = Json::array();
  for (const ArtifactState& s : states)
    list.push_back({{"index", s.index},
                    {"kind", s.kind},
                    {"heads", s.heads},
                    {"keys", s.keys},
                    {"values", s.values},
                    {"observations", s.observations},
                    {"absmax", json_number(s.absmax)},
                    {"absmax_per_head", numbers(s.absmax_per_head)},
                    {"absmax_by_position", numbers(s.absmax_by_position)},
                    {"error_fp8_e4m3", state_error_json(s.error)},
                    {"where", where_json(s.where)},
                    {"growth", growth_json(s.growth)}});
  return list;
}

std::vector<ArtifactState> states_from(const Json& list) {
  std::vector<ArtifactState> states;
  for (const Json& entry : list) {
    const std::string path = "state_layers[" + std::to_string(states.size()) + "]";
    if (!entry.is_object()) fail(member_at(path) + " is " + entry.type_name() + ", expected an object");
    states.push_back(state_layer_from({entry, path + "."}));
    if (states.size() > 1 && states.end()[-1].index <= states.end()[-2].index)
      fail(member_at(path + ".index") + " is " + std::to_string(states.back().index) + ", expected ascending layers");
  }
  return states;
}

}  // namespace kvcal
