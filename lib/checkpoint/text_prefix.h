// Where the language model's tensors are in a checkpoint: wrappers and library versions add different prefixes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/skip_rules.h"

namespace kvcal {

struct TextPrefix {
  std::string model;    // in front of "layers.0..." and of the embedding: "model.", "model.language_model.", ...
  std::string lm_head;  // the output head's full name, plain also where it is stored in parts (….lm_head.qweight); ""
                        // when there is none (tied to the embedding)
  std::string head_module() const;  // "lm_head.": what the head's tensors begin with; "" when there is none
};

/// Finds the prefix by the presence of <prefix><embedding>, plain or quantized: model.language_model.,
/// language_model.model., model., none, and rarer ones; else the only tensor with that ending outside vision, audio and
/// MTP parts. Throws Error when there is none or the choice is not clear.
TextPrefix detect_prefix(const Checkpoint& checkpoint, std::string_view embedding = "embed_tokens.weight",
                         std::string_view head = "lm_head.weight");

/// What follows the language model's prefix in the name of a module of its layers: "layers.3.self_attn.q_proj"; "" for
/// names of other parts. Libraries name the modules of a model by other prefixes than its checkpoint does.
std::string_view below_text_prefix(std::string_view name);

/// The language model's tensors: those with its prefix, and the output head, without what a skip rule names.
std::vector<std::string> language_model_tensors(const Checkpoint& checkpoint, const TextPrefix& prefix,
                                                const SkipRules& rules);

}  // namespace kvcal
