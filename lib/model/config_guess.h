// Models of classes that are not read, as far as the usual keys of a config.json tell of their caches.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "model/model_spec.h"

namespace kvcal {

struct GuessedModel {
  ModelSpec spec;       // layers, caches and sizes; parameters where all that counts is told, else 0; and no names
  std::string told_by;  // the keys that it comes from: "num_hidden_layers, head_dim"
  std::string open;     // what the keys leave open, and how it was taken; "" for nothing
  std::string refused;  // why the class is refused by name; "" where it is not known
};

/// From the language model's own keys. Nothing where layers or heads are not told, or not as numbers that can be right.
std::optional<GuessedModel> guess_model(const Json& config);

/// "40 layers: 10 with 8 KV heads of 128 (48 query heads), 30 with 8 KV heads of 128 (64 query heads) and a window of
/// 512".
std::string caches_text(const ModelSpec& spec);

/// The same where the config's class is not read, unless its caches are known to be others than keys tell, or none.
std::optional<GuessedModel> guess_unknown_class(const Json& config);

}  // namespace kvcal
