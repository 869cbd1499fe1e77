// The "post_processor" of tokenizer.json: what is put around the ids of a text: ByteLevel (nothing),
// TemplateProcessing, RobertaProcessing, BertProcessing, Sequence.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/json.h"

namespace kvcal {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  /// `ids` with what surrounds them; without special tokens only a repeated or missing "$A" of a template shows.
  virtual std::vector<uint32_t> apply(std::vector<uint32_t> ids, bool add_special_tokens) const = 0;
  /// Whether it ever adds tokens; a Sequence may hold one that does.
  virtual bool adds_tokens() const { return true; }
};

/// Throws Error for an unknown or malformed component. A null component gives a null pointer: nothing to do.
std::unique_ptr<PostProcessor> make_post_processor(const Json& component);

}  // namespace kvcal
