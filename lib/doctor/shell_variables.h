// What $NAME and ${NAME:-word} stand for in a Dockerfile, and in what it hands to a shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace kvcal {

using Variables = std::map<std::string, std::string, std::less<>>;

/// What becomes of spaces in a value outside quotes: a shell splits there, Docker does not.
enum class Spaces : uint8_t { SplitWords, KeepWord };

/// Expands one file. What all values add to its texts is limited: each of them may name the one before twice.
class VariableExpander {
 public:
  /// $NAME, ${NAME}, and with a word in place of a value -, :-, + and :+. Quotes and backslashes stay for read_words(),
  /// which makes one word of a value in quotes. As it is written stays what names no variable, or one that is not
  /// known: the base image, docker build or docker run may set it. `quote`: the one that the text stands in; 0: none.
  std::string expanded(std::string_view text, const Variables& variables, Spaces spaces, char quote = 0);

 private:
  size_t bytes_left_ = size_t{256} << 10;
};

}  // namespace kvcal
