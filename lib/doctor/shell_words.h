// Words of a shell's command: quotes, backslashes and line continuations; nothing is expanded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

enum class LineEnd : uint8_t { EndsCommand, IsSpace };

/// The words up to the end of the command: its line, or ; | & # and the like. At most 4,096.
std::vector<std::string> read_words(std::string_view text, LineEnd line_end = LineEnd::EndsCommand);

/// Without blanks and line ends in front and behind.
std::string_view trimmed(std::string_view text);

/// The word again, in quotes where a shell needs them; and several.
std::string shell_quoted(const std::string& word);
std::string shell_quoted(const std::vector<std::string>& words);

/// The script of "bash -lc SCRIPT"; "" where there is none.
std::string script_of(const std::vector<std::string>& words);

/// Adds what "NAME=value" assigns; false for what is no assignment.
bool take_assignment(const std::string& word, std::map<std::string, std::string>& environment);

}  // namespace kvcal
