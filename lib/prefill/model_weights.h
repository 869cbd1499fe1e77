// Where a checkpoint keeps the tensors of the language model that a config describes, and whether all are there.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/skip_rules.h"
#include "checkpoint/text_prefix.h"
#include "checkpoint/weight_binder.h"
#include "model/model_spec.h"

namespace kvcal {

class Model;

class Block;
class WeightLoader;

struct ModelWeights {
  WeightBinder whole;  // at the checkpoint's top
  WeightBinder text;   // at the language model: "embed_tokens.weight", "layers.0.…", "norm.weight"
  WeightBinder head;   // where the spec's head lives
  TextPrefix prefix;
  SkipRules rules;  // of the whole checkpoint

  SkipReport report() const { return text.report(rules); }

  /// As the binder's own.
  ModelWeights shapes_only() const;
  ModelWeights as_stored() const;

  /// The tensors of a layer, and of the MTP layer whether the spec has it or not; spec.mtp_names must not be empty.
  WeightBinder of_layer(const ModelSpec& spec, int layer) const;
  WeightBinder of_mtp_layer(const ModelSpec& spec) const;
};

/// Finds the language model. The checkpoint must outlive the result. A head stored beside a tied embedding counts as
/// used.
ModelWeights locate_weights(const Checkpoint& checkpoint, const ModelSpec& spec);

/// Whether the checkpoint has an MTP layer that the model can read.
bool has_mtp_layer(const ModelSpec& spec, const ModelWeights& weights);

/// The block of a layer of any kind. `weights` may be as_stored() or shapes_only().
std::unique_ptr<Block> load_layer(const Model& model, int layer, WeightLoader& loader, ModelWeights& weights);

/// Asks for every tensor of layers 0 .. n_layers - 1, and of the head if asked for, without computing or keeping
/// anything: a missing or wrong-shaped one is found in the first seconds, not when its layer's turn comes. Throws Error
/// naming layer and tensor.
void check_weights(const Model& model, ModelWeights& weights, int n_layers, bool with_head);

}  // namespace kvcal
