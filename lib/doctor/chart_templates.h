// The templates of charts ({{ .Values.x }}), which are no YAML before something has filled them in.
#pragma once

#include <string>
#include <string_view>

namespace kvcal {

/// Lines that hold nothing else become empty ones, and a value that begins with a template a text in quotes. What
/// stands in quotes or in a block of text ("|") stays as it is. As many lines as before.
std::string without_templates(std::string_view text);

}  // namespace kvcal
