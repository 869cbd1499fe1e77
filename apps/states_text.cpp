#include "states_text.h"

#include "base/counted.h"
#include "base/number_text.h"
#include "table.h"

namespace kvcal {
namespace {

std::string magnitude(float x) { return formatted("%.4g", static_cast<double>(x)); }

}  // namespace

Lines states_text(const Artifact& artifact) {
  if (artifact.state_layers.empty()) return {};
  using enum Table::Align;
  Table table({{"layer", Right},
               {"state"},
               {"counted", Right, 2},
               {"absmax", Right},
               {"E4M3 at 1.0", Right},
               {"at its range", Right, 1}},
              2);
  for (const ArtifactState& s : artifact.state_layers)
    table.add_row({std::to_string(s.index), s.kind, grouped(static_cast<int64_t>(s.observations)), magnitude(s.absmax),
                   share_in_percent(static_cast<double>(s.error.at_one)),
                   share_in_percent(static_cast<double>(s.error.at_range))});
  Lines text = table.text();
  text.add(
      "Of recurrent states, what one rounding does: no server takes a scale for them, and errors of many roundings add "
      "up. kvcal evaluate --state-dtype says what a type costs.");
  text.add("");
  return text;
}

}  // namespace kvcal
