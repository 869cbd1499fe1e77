// Checks a document against the JSON schema shipped with the program.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kvcal {

struct SchemaError {
  std::string path;            // "layers[3].key.scale"; "" is the document itself
  std::string message;         // what is wrong there
  std::string unknown_member;  // of the value at `path`, where that is what is wrong
};

/// All violations, innermost first; empty when the document is valid. Texts of more than 4 KiB are violations, but for
/// those of members called like one of `free_texts`, of which no pattern of the schema speaks. Throws Error when the
/// schema itself is broken.
std::vector<SchemaError> check_schema(const Json& document, std::string_view schema_text,
                                      std::span<const std::string_view> free_texts = {});

}  // namespace kvcal
