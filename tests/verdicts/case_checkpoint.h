// The checkpoint of a case: one attention layer whose input is one-hot, so that column t of a projection is what token
// t gets. classes.json has the configs and which tensor takes which table; the judge reads it, too.
#pragma once

#include <filesystem>

#include "verdicts/case_tables.h"

namespace kvcal {

/// Writes config.json and model.safetensors into `folder`, which exists.
void write_case_checkpoint(const std::filesystem::path& folder, const Json& the_case, const CaseTables& tables,
                           const Json& classes);

}  // namespace kvcal
