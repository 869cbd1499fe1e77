// What a checkpoint folder says of tokens beside tokenizer.json: tokenizer_config.json, and in older folders
// special_tokens_map.json and added_tokens.json.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/added_tokens.h"

namespace kvcal {

/// The names that every configuration may give tokens, in the reference's order ("bos_token", ...).
inline constexpr const char* kStandardTokenNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                      "pad_token", "cls_token", "mask_token"};

/// All these files as one tokenizer_config.json, an object; empty where there is none. Throws Error naming the file
/// that is malformed.
Json read_tokenizer_config(const std::filesystem::path& folder);

/// A token in a configuration is a string, or an object with content and flags; none where it is neither. Special.
std::optional<AddedToken> configured_token(const Json& token);

/// All of one "added_tokens_decoder", by rising id.
std::vector<AddedToken> tokens_of_decoder(const Json& table);

}  // namespace kvcal
