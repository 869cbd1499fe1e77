// The line of a JSON text on which a member is.
#pragma once

#include <string_view>
#include <vector>

#include "check/finding.h"

namespace kvcal {

/// Sets the line of every finding from its path; where the text does not have the path, that of the innermost member on
/// the way. The text has been parsed before: nothing is checked.
void locate(std::string_view text, std::vector<Finding>& findings);

}  // namespace kvcal
