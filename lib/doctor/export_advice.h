// Fixes that advise an export, held to the table of servers that export itself goes by. A word in braces stands for it:
// "{export to vllm}".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace kvcal {

/// What stands between ", " and "; " of a fix, each with what is before it.
struct FixPart {
  std::string before, text;
};
std::vector<FixPart> parts_of(std::string_view fix);

/// The fix of an entry; where export refuses the class for the server it names the plug-in or kvcal fold instead, and
/// {control} where there is neither.
std::string export_advice(std::string_view fix, const Facts& facts);

}  // namespace kvcal
