// Recurrent states as calibrate counted them: how large they are, whether they grow, and what one rounding does.
#include "base/number_text.h"
#include "report/markup.h"
#include "report/sections.h"

namespace kvcal {

std::string states_section(const ReportInput& input) {
  if (input.artifact.state_layers.empty()) return "";
  HtmlTable table("What each recurrent state held", {{"layer", true},
                                                     {"state"},
                                                     {"heads", true},
                                                     {"counted", true},
                                                     {"largest", true},
                                                     {"prompt"},
                                                     {"position", true},
                                                     {"E4M3 at 1.0", true},
                                                     {"at its range", true}});
  for (const ArtifactState& s : input.artifact.state_layers)
    table.add_row({std::to_string(s.index), escaped(s.kind), grouped(s.heads),
                   grouped(static_cast<int64_t>(s.observations)), figure_text(static_cast<double>(s.absmax)),
                   escaped(s.where.prompt), std::to_string(s.where.position),
                   share_in_percent(static_cast<double>(s.error.at_one)),
                   share_in_percent(static_cast<double>(s.error.at_range))});
  return "<p>States were counted after 64, 256, 1,024, ... tokens of a sequence and at its end. No server takes a "
         "scale for them.</p>\n" +
         table.html() +
         "<p class=\"help\">E4M3: the relative error of one rounding of the numbers, without a scale and with one for "
         "the layer. A server rounds again and again, and these errors add up: kvcal evaluate --state-dtype measures "
         "that.</p>\n";
}

}  // namespace kvcal
