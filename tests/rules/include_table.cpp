#include "rules/include_table.h"

#include <algorithm>

namespace kvcal::rules {

std::span<const IncludeRule> include_table() {
  static const std::vector<IncludeRule> table = {
      {"base", "", {}},
      {"tensor", "", {"base"}},
      {"checkpoint", "", {"base", "tensor", "checkpoint/formats"}},
      {"checkpoint/formats", "one file per quantized weight format", {"base", "tensor", "checkpoint"}},
      {"unicode", "", {"base"}},
      {"jinja", "chat templates", {"base", "unicode"}},
      {"tokenizer", "", {"base", "unicode"}},
      {"vision", "files of pictures, and how they are cut", {"base"}},
      {"prompts", "", {"base", "unicode", "jinja", "tokenizer", "vision"}},
      {"ops", "", {"base", "tensor"}},
      {"ops/cpu", "", {"base", "tensor", "ops"}},
      {"model", "what all rooms share: spec, config, tap", {"base", "tensor", "vision/patches.h", "checkpoint", "ops"}},
      {"model/layers", "what decoders are made of", {"base", "tensor", "checkpoint/weight_binder.h", "ops", "model"}},
      {"model/decoders", "layers put together", {"base", "model", "model/layers"}},
      {"model/archs",
       "one file per family",
       {"base", "tensor", "model", "model/layers", "model/decoders", "checkpoint/weight_binder.h", "ops/ops.h"}},
      {"model/towers",
       "one file per family of encoders",
       {"base", "tensor", "vision/patches.h", "checkpoint/weight_binder.h", "ops/ops.h", "model", "model/layers"}},
      {"prefill", "", {"base", "tensor", "vision", "checkpoint", "ops", "model"}},
      // The statistics file is a safetensors container.
      {"stats",
       "",
       {"base", "tensor", "ops", "model/model_spec.h", "model/kv_tap.h", "model/batch.h", "checkpoint/safetensors.h",
        "checkpoint/safetensors_writer.h"}},
      {"solve", "", {"base", "tensor", "stats", "model/model_spec.h", "model/kv_tap.h", "model/batch.h"}},
      {"artifact", "", {"base", "stats", "solve", "model/model_spec.h"}},
      {"calibrate",
       "the main line",
       {"base", "tensor", "vision", "checkpoint", "tokenizer", "prompts", "ops", "model", "model/towers/towers.h",
        "prefill", "stats", "solve", "artifact"}},
      {"evaluate",
       "what a rounded cache does to predictions",
       {"base", "tensor", "prompts", "ops", "model", "prefill", "stats", "artifact", "calibrate",
        "deployment/cache_choices.h"}},
      {"servers",
       "what servers do with a checkpoint",
       {"base", "tensor", "checkpoint", "model/model_spec.h", "model/architecture.h"}},
      {"deployment", "what a server makes of a command and a checkpoint", {"base", "servers", "model/model_spec.h"}},
      {"export",
       "what servers load: one file per target",
       {"base", "tensor", "checkpoint", "artifact", "servers", "model/model_spec.h"}},
      {"fold",
       "scales put into weights",
       {"base", "tensor", "checkpoint", "checkpoint/formats", "ops", "model", "prefill", "stats", "solve", "artifact",
        "calibrate", "export/overlay.h", "export/folder_files.h"}},
      {"check",
       "what can be wrong with a scale file or checkpoint",
       {"base", "checkpoint", "artifact", "servers", "stats", "model/model_spec.h", "solve/format.h"}},
      // Of exports only their record, which tells that scales were measured; so does doctor.
      {"validate",
       "",
       {"base", "checkpoint", "artifact", "servers", "check", "stats", "model/architecture.h", "export/record.h",
        "solve/solution.h"}},
      {"doctor",
       "logs, flags and configs of servers",
       {"base", "tensor", "checkpoint", "artifact", "servers", "deployment", "check", "export/record.h",
        "model/model_spec.h", "model/architecture.h"}},
      {"capacity",
       "contexts that fit a GPU",
       {"base", "tensor", "checkpoint", "servers/gpu.h", "deployment", "model/model_spec.h", "model/architecture.h"}},
      {"report", "the HTML page", {"base", "stats", "solve", "artifact", "model/model_spec.h"}},
      {"kernels", "nothing includes them", {"base", "tensor", "ops"}},
      {"apps/mpi", "what --mpi opens; nothing includes it", {"base"}},
  };
  return table;
}

const IncludeRule* include_rule_of(std::string_view folder) {
  const auto table = include_table();
  const auto found = std::find_if(table.begin(), table.end(), [&](const IncludeRule& r) { return r.folder == folder; });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace kvcal::rules
