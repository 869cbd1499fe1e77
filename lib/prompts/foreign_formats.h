// Files of tables and archives that are given as prompts: named, with a line that makes JSON lines of them.
#pragma once

#include <string>
#include <string_view>

namespace kvcal {

/// `begin`: the first bytes of the file, unpacked. Throws Error for what is not read here, naming the format.
void refuse_foreign_format(std::string_view begin, const std::string& name);

}  // namespace kvcal
