// The artifact's block "ranges_by": which prompts and tokens set the ranges, over all layers.
#pragma once

#include "stats/run_record.h"

namespace kvcal {

/// {"tag": [{"name", "prompts", "key": {"share", "layer"}, ...}], "role": [{"name", "tokens", ...}], "turn": [...]}:
/// for key, value, latent (the whole row) and query the largest share that the group's absmax has of the site's, and
/// its layer. Roles and turns only where there are several; null where nothing is left.
Json ranges_by(const Statistics& statistics);

}  // namespace kvcal
