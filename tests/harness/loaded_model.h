// A checkpoint opened as the program opens it, with a backend.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_file.h"
#include "model/architecture.h"
#include "ops/cpu/cpu_ops.h"
#include "prefill/generate.h"
#include "prefill/model_weights.h"
#include "prefill/runner.h"

namespace kvcal {

struct LoadedModel {
  Checkpoint checkpoint;
  std::unique_ptr<Model> model;
  ModelWeights weights;
  std::unique_ptr<Ops> ops;

  LoadedModel(const std::filesystem::path& folder, const CpuOptions& options)
      : LoadedModel(folder, make_cpu_ops(options)) {}
  LoadedModel(const std::filesystem::path& folder, std::unique_ptr<Ops> backend)
      : checkpoint(Checkpoint::open(folder)),
        model(parse_model(with_image_token(checkpoint.config(), checkpoint.folder()))),
        weights(locate_weights(checkpoint, model->spec())),
        ops(std::move(backend)) {}
  LoadedModel(const LoadedModel&) = delete;  // the weights refer to the checkpoint beside them
  LoadedModel& operator=(const LoadedModel&) = delete;
};

}  // namespace kvcal
