// An export as other verbs make one, too.
#pragma once

#include <string>

#include "export/export.h"
#include "verbs.h"

namespace kvcal {

/// Takes the value of --skip-layers: "keep16" ("inadequate" in version 1.0 of the file), or numbers: "3,7" and "3-5".
void read_skip_layers(const std::string& text, ExportOptions& options);

/// Exports, and prints what was written and how to serve it; as one JSON object where that is wanted.
Exit run_export(const ExportRequest& request, bool json);

}  // namespace kvcal
