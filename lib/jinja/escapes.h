// Escapes of Python string literals, which template string literals share.
#pragma once

#include <string>
#include <string_view>

namespace kvcal::jinja {

/// The text that the inside of a literal stands for. Unknown escapes keep their backslash. Throws Error for a broken
/// \x, \u or \U, a lone surrogate, and \N{...}.
std::string unescape_python(std::string_view literal);

}  // namespace kvcal::jinja
