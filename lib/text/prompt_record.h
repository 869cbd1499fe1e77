// One record of a prompt set, from JSON.
#pragma once

#include "text/prompt_set.h"

namespace kvcal {

/// Checks and reads a record; its id is empty when none is given. Throws Error with the reason, without file and line.
PromptRecord parse_prompt_record(const Json& json);

/// A record of raw text.
PromptRecord text_record(std::string text);

}  // namespace kvcal
