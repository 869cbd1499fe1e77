// What is given as prompts and is not read: named, with a line that makes prompts of it. Files of tables and archives,
// and records of public sets and logs.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace kvcal {

/// `begin`: the first bytes of the file, unpacked. Throws Error for what is not read here, naming the format.
void refuse_foreign_format(std::string_view begin, const std::string& name);

/// Throws Error for a record of a known kind that is not read.
void refuse_foreign_record(const Json& record);

/// What to do with a record that nothing is known of, "; ..."; "" where no member looks like a text.
std::string how_to_name_text(const Json& record);

}  // namespace kvcal
