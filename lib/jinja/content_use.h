// Whether a chat template takes the content of a message as a list of parts: what vLLM's detection of the "content
// format" looks for (vllm/renderers/hf.py), and SGLang's, which knows messages by their usual names.
#pragma once

#include "jinja/ast.h"

namespace kvcal::jinja {

struct ContentUse {
  bool is_looped_over = false;  // there is a loop over the content of a message
  bool is_text_too = false;     // some content is written as it is, or tested for being a text
};

ContentUse content_use(const Block& body);

}  // namespace kvcal::jinja
