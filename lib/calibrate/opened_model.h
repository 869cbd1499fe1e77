// A checkpoint folder opened for running: config understood, tensors located.
#pragma once

#include <filesystem>
#include <memory>

#include "calibrate/notices.h"
#include "checkpoint/checkpoint.h"
#include "model/architecture.h"
#include "prefill/model_weights.h"
#include "stats/model_info.h"

namespace kvcal {

struct OpenedModel {
  Checkpoint checkpoint;
  std::unique_ptr<Model> model;
  ModelWeights weights;  // refers to `checkpoint`

  /// max_model_len: what the server will allow; 0: the model's own limit. With `mtp` the MTP layer is one of the
  /// layers; throws Error where the checkpoint has none that this program reads.
  explicit OpenedModel(const std::filesystem::path& folder, int64_t max_model_len = 0, bool mtp = false);
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  const ModelSpec& spec() const { return model->spec(); }

  /// False for a backbone saved alone, such as an embedding model's: it has a KV cache, but no logits.
  bool has_head() const { return spec().tied_head || !weights.prefix.lm_head.empty(); }

  /// Warns about tensors that were not used and that no rule explains; a detail for each rule that skipped some. Layers
  /// and output heads that this run did not need are expected.
  void report_tensors(bool ran_to_logits, NoticeListener& listener) const;
};

/// With the digests of this checkpoint.
ModelInfo describe(const OpenedModel& model);

/// Token ids that end a generation: eos_token_id of generation_config.json, else of config.json.
std::vector<int32_t> end_tokens(const Checkpoint& checkpoint);

}  // namespace kvcal
