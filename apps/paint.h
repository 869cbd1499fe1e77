// Color by meaning, and lines for the width of a terminal: what is added to Lines when they are printed.
#pragma once

#include <string>
#include <string_view>

#include "base/lines.h"

namespace kvcal {

/// --color: "auto", "always" or "never". Throws Error for another word.
void choose_color(std::string_view when);

/// Whether what goes to this descriptor has colors. auto: a terminal that is not "dumb", without NO_COLOR.
bool has_color(int descriptor);

/// The words of the answers, as words of a table's row or before a colon at the beginning of a line (needed, keep16);
/// the severity of a finding; what is NOT valid or within limits.
std::string painted_answers(std::string_view lines);

/// "error:" and "warning:" of the program's own messages.
std::string painted_messages(std::string_view lines);

/// Long lines broken at spaces, further lines indented. Commands, which begin with spaces, stay whole.
std::string wrapped_sentences(std::string_view lines, int width);

}  // namespace kvcal
