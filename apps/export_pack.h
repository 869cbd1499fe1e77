// What 'kvcal export --to pack' does and says.
#pragma once

#include "export/pack.h"
#include "verbs.h"

namespace kvcal {

/// With a page of its evaluation. Says what the pack has, what it lacks and which command makes that, and what comes
/// next.
Exit export_pack(PackRequest request);

}  // namespace kvcal
