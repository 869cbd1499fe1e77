// An export as other verbs make one, too.
#pragma once

#include "export/export.h"
#include "verbs.h"

namespace kvcal {

/// Exports, and prints what was written and how to serve it; as one JSON object where that is wanted.
Exit run_export(const ExportRequest& request, bool json);

}  // namespace kvcal
