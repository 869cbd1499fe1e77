// An export as other verbs make one, too.
#pragma once

#include <string>

#include "export/export.h"
#include "verbs.h"

namespace CLI {
class App;
}

namespace kvcal {

/// The options of `export` that `apply` has, too: how a checkpoint is written.
void add_export_options(CLI::App& verb, ExportRequest& request, std::string& skip_layers);

/// Takes the value of --skip-layers: "keep16" ("inadequate" in version 1.0 of the file), or numbers: "3,7" and "3-5".
void read_skip_layers(const std::string& text, ExportOptions& options);

/// Exports, and prints what was written and how to serve it; as one JSON object where that is wanted.
Exit run_export(const ExportRequest& request, bool json);

}  // namespace kvcal
