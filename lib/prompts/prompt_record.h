// One record of a prompt set, from JSON.
#pragma once

#include "prompts/prompt_set.h"

namespace kvcal {

/// Checks and reads a record; its id is empty when none is given. Throws Error with the reason, without file and line.
PromptRecord parse_prompt_record(const Json& json);

/// Finds the record's embeddings and pictures from the folder of its file and puts their hashes into `canonical`.
/// Throws Error when they cannot be read.
void locate_files(PromptRecord& record, const std::filesystem::path& folder);

/// A record of raw text.
PromptRecord text_record(std::string text);

}  // namespace kvcal
