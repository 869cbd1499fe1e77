// The commands of a Markdown document, in the order in which a reader types them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal::documents {

struct Step {
  int line = 0;
  std::string command;                // for sh; may have several lines
  std::optional<std::string> output;  // a pattern of output_pattern.h; absent: not shown
  int exit = 0;
};

/// Commands are lines of fenced code blocks that begin with "kvcal ", behind "$ " or "- run: " where there is one; a
/// backslash at the end continues them. In blocks of "console", "$ " begins every command, whatever follows it up to
/// the next is its output. "<!-- run: COMMAND -->" is a step that no reader sees, of any program; "<!-- exits N -->" is
/// the exit code of all commands of the next block. Throws std::runtime_error with the line for a block that does not
/// end and for indented lines that look like commands: they would never run.
std::vector<Step> steps_of(std::string_view markdown);

}  // namespace kvcal::documents
