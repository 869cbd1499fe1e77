// The table at the end of a report on a folder: what each server uses, layer by layer.
#include <algorithm>

#include "check/artifact_checks.h"
#include "validate/validate_folder.h"

namespace kvcal {
namespace {

std::string short_text(const std::vector<float>& scales) {
  if (scales.empty()) return "-";
  std::string text = number_text(scales[0]);
  if (scales.size() > 1) text += " .. (" + std::to_string(scales.size()) + " heads)";
  return text;
}

std::string cell_of(const ServedLayer& l) {
  const std::string value = l.value.empty() ? "" : ", " + short_text(l.value);
  return short_text(l.key) + value + (l.note.empty() ? "" : " (" + l.note + ")");
}

/// The layers of a server that starts, else none: all servers know the same caches.
const ServedScales* any_started(const std::vector<ServedScales>& served) {
  const auto found = std::find_if(served.begin(), served.end(), [](const ServedScales& s) { return s.starts(); });
  return found == served.end() ? nullptr : &*found;
}

}  // namespace

Lines served_text(const std::vector<ServedScales>& served) {
  Lines text;
  for (const ServedScales& s : served)
    if (!s.known) text.add(str(s.server) + ": what it uses is not known");
  for (const ServedScales& s : served)
    if (!s.stops.empty()) text.add(str(s.server) + " does not start: " + s.stops.front().reason);
  return text;
}

std::vector<std::vector<std::string>> served_rows(const std::vector<ServedScales>& served) {
  const ServedScales* first = any_started(served);
  if (!first) return {};
  std::vector<std::vector<std::string>> rows = {{"layer", "module"}};
  for (const ServedScales& s : served)
    if (s.starts()) rows[0].push_back(str(s.server) + " uses (key, value)");
  for (size_t i = 0; i < first->layers.size(); ++i) {
    rows.push_back({std::to_string(first->layers[i].layer), first->layers[i].module});
    for (const ServedScales& s : served)
      if (s.starts()) rows.back().push_back(cell_of(s.layers[i]));
  }
  return rows;
}

Json served_json(const std::vector<ServedScales>& served) {
  Json list = Json::array();
  for (const ServedScales& s : served) {
    Json layers = Json::array(), stops = Json::array();
    for (const ServedLayer& l : s.layers)
      layers.push_back({{"index", l.layer},
                        {"name", l.module},
                        {"key", l.key},
                        {"value", l.value},
                        {"key_loaded", l.key_loaded},
                        {"value_loaded", l.value_loaded},
                        {"note", l.note}});
    for (const ServedScales::Stop& stop : s.stops)
      stops.push_back({{"tensor", stop.tensor}, {"file", stop.file}, {"reason", stop.reason}});
    list.push_back({{"server", str(s.server)},
                    {"known", s.known},
                    {"starts", s.known ? Json(s.stops.empty()) : Json()},
                    {"stops", stops},
                    {"auto_is_fp8", s.known ? Json(s.auto_is_fp8) : Json()},
                    {"source", s.support.source},
                    {"backend_applies", s.support.backend},
                    {"layers", layers}});
  }
  return list;
}

}  // namespace kvcal
