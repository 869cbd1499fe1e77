// Keys that Cohere's classes have in common.
#pragma once

#include <cstdint>

#include "base/json.h"

namespace kvcal {

/// logit_scale: what logits are multiplied by; null: nothing. Refuses what is not positive.
float read_cohere_logit_scale(const Json& text);

/// sliding_window, in tokens. Refuses null: with no window no layer would tell that it turns.
int64_t read_cohere2_window(const Json& text);

}  // namespace kvcal
