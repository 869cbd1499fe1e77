// The identity of a checkpoint, against which a scale file is checked.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/fold_mark.h"
#include "model/model_spec.h"

namespace kvcal {

struct ModelIdentity {
  std::filesystem::path folder;  // where config.json and the weights are
  ModelSpec spec;
  std::optional<ModelSpec> with_mtp{};  // the same and its MTP layer, where the checkpoint has one
  std::string tensor_prefix;
  std::string config_sha256, weights_fingerprint;
  std::optional<FoldMark> fold{};  // where powers of two were folded into the weights

  /// Whether a fingerprint is that of the weights before the fold.
  bool was(const std::string& fingerprint) const { return fold && fold->original_fingerprint == fingerprint; }
};

class Checkpoint;

/// Whether there are tensors of the MTP layer. `prefix`: of the language model's.
bool has_mtp_layer(const Checkpoint& checkpoint, const ModelSpec& spec, const std::string& prefix);

/// What a checkpoint has scales of: the model, and its MTP layer where it has scales of that, too.
struct StoredSpec {
  ModelSpec spec;
  std::string
      bare_mtp;  // module of an MTP layer's cache that has none: "mtp.layers.0.self_attn"; "" where there is none
};

/// Throws Error for an architecture that the program does not know, and where the text prefix is not clear.
StoredSpec stored_spec(const Checkpoint& checkpoint);

/// Opens a checkpoint folder. Throws Error.
ModelIdentity identify_model(const std::filesystem::path& folder);

}  // namespace kvcal
