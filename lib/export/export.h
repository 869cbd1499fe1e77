// The main line of an export: from a scale file and a checkpoint to what a server loads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "export/exporter.h"
#include "export/write_export.h"

namespace kvcal {

/// What is wanted, as it was said.
struct ExportRequest {
  std::filesystem::path recipe;                 // evaluation whose recipe says which layers are kept; "" none
  std::filesystem::path scales, model, out;     // out: empty with write.in_place, and perhaps with plan_only
  std::string target = "vllm";                  // a name of exporters()
  std::string granularity;                      // "tensor", "head", "channel": what the scale file must have; "" any
  ExportOptions options;                        // its also_for is filled from the next member
  std::vector<std::filesystem::path> also_for;  // checkpoints
  WriteOptions write;                           // its scales_sha256 is that of the file that is read
  bool plan_only = false;
};

struct ExportResult {
  ExportPlan plan;
  OverlayReport report;  // empty with plan_only
  std::filesystem::path out;
  std::vector<int> skipped_layers;  // that the server is told to keep in the model's dtype
  std::string evaluation_sha256;    // of the recipe; "" without one
};

/// Plans, writes, reads back and compares, and only then gives the result its name. Throws Error, and leaves everything
/// as it was, for options that the target does not know, a scale file of another model or granularity, what the target
/// cannot carry, layers better kept in 16 bits, and as write_export() says. A recipe
/// takes the place of the assessments: what it measured in the file's format is not refused.
ExportResult export_scales(const ExportRequest& request);

}  // namespace kvcal
