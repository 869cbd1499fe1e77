// The table of export targets, and what each one provides: scales of an artifact as files that one server loads.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "export/carrier.h"
#include "export/overlay.h"
#include "servers/model_identity.h"

namespace kvcal {

/// What the user decides about an export.
struct ExportOptions {
  bool query = true;                    // write scales of queries where the server takes them
  int64_t tensor_parallel = 1;          // sglang-json: ranks
  bool nvfp4 = false;                   // modelopt: global scales of an NVFP4 cache
  std::vector<int> skip_layers;         // layers that the server is told to keep in the model's dtype
  std::map<int, std::string> formats;   // by a recipe, of the other layers; empty without one
  bool skip_keep16 = false;             // those, and all that are assessed as keep16
  bool allow_keep16 = false;            // write them all the same
  bool replace_scales = false;          // KV scales that the checkpoint has give way
  std::vector<ModelIdentity> also_for;  // scales: checkpoints that hold the same model with other weights
};

struct ExportInput {
  const Artifact& artifact;
  const ModelIdentity& model;
  const Carrier& carrier;  // of that model's checkpoint
  const ExportOptions& options;
  std::filesystem::path scales, out;  // as the user named them, for commands
};

/// How to serve the result.
struct Serving {
  std::vector<std::string> commands;  // for a shell
  std::vector<std::string> notes;     // conditions, what is not loaded and why, what helps
  std::string snippet;                // Python: the scales that a server really uses; "" where none can be asked
};

/// What a module will load for one site.
struct PlannedScale {
  int layer = 0;
  std::string site;  // "key", "value", "query", "joint"
  std::string name;  // tensor or member
  std::vector<float> values;
};

/// An export in memory: nothing has been written.
struct ExportPlan {
  std::vector<PlannedScale> scales;
  std::vector<TextFile> files;  // of the folder, or the only one (its name is not used) for a target of one file
  std::vector<ScaleTensor> tensors;
  std::vector<std::string> dropped;  // tensors of the checkpoint that do not come along
  Serving serving;
};

struct ExportRequest;

/// What one target alone lets its user say.
struct OwnOption {
  std::string_view flag;  // "--tp"
  bool (*used)(const ExportRequest&) = nullptr;
  std::string_view needed;  // "--also-for CHECKPOINT" where nothing can be written without it, else ""
};

struct Exporter {
  std::string_view name;
  std::string_view what;  // one line for --help
  bool writes_folder = true;
  /// Throws Error for what this target cannot carry, with a way out.
  ExportPlan (*plan)(const ExportInput&);
  /// Reads what was written (a folder, or a file) with nothing but its own content to go by and compares it with the
  /// plan. Throws Error where they differ.
  void (*read_back)(const ExportInput&, const ExportPlan&, const std::filesystem::path& written);
  OwnOption own = {};
  bool is_served = true;             // false: a layer that is better kept in 16 bits is no reason to refuse
  std::string_view keeps_none = {};  // who cannot keep single layers in the model's dtype: "SGLang"; "" where one can
  std::span<const std::string_view> mixes = {};  // formats that it gives to single layers, beside the scale file's own
  bool is_assessed = true;  // false: the cache has another format than the scale file, whose answers are not about it
};

/// In the order of --help.
std::span<const Exporter> exporters();
const Exporter& find_exporter(std::string_view name);

}  // namespace kvcal
