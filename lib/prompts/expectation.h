// What a right answer to a prompt looks like: "expect" of its record.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/json.h"
#include "tokenizer/regex.h"

namespace kvcal {

/// One of
///   "86"                  the answer contains it
///   86                    the last number in the answer is it; commas between digits do not matter
///   {"regex": "^86\\b"}   the answer has a match (syntax of tokenizer/regex.h)
class Expectation {
 public:
  /// Throws Error for another form, an empty text, or a pattern that does not compile.
  explicit Expectation(const Json& json);

  /// Throws Error where a pattern takes too long.
  bool is_met_by(std::string_view answer) const;

 private:
  std::variant<std::string, double, std::shared_ptr<const Regex>> wanted_;
};

}  // namespace kvcal
