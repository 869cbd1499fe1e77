// From a plan to files: written under a temporary name, read back, and only then given their name.
#pragma once

#include <filesystem>
#include <string>

#include "export/exporter.h"

namespace kvcal {

struct WriteOptions {
  bool force = false;                                 // replace an earlier export
  bool copy = false;                                  // weights too, instead of linking them
  bool in_place = false;                              // the model's own folder gets the scales
  std::string scales_sha256 = {}, tool_version = {};  // for the record
  std::string evaluation_sha256 = {};                 // that of the recipe; "" without one
};

/// Writes what was planned to input.out (in_place: over input.model.folder, which in one step changes places with its
/// changed twin; the files that differ stay beside the new ones under "NAME.kvcal-original"). Throws Error and leaves
/// everything as it was: target exists, is inside the model or around it, disk full, no permission, or what was written
/// does not read back as planned.
OverlayReport write_export(const Exporter& exporter, const ExportInput& input, const ExportPlan& plan,
                           const WriteOptions& options);

/// Takes back an export that was made in place, in one step: the original files get their names again. Throws Error
/// when the folder is none, or (without force) when a file was changed since. Returns the target it was made for.
std::string undo_export(const std::filesystem::path& folder, bool force);

}  // namespace kvcal
