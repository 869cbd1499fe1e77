// Patterns of tokenizer.json: Oniguruma in its own default syntax on UTF-8, which is what the reference library uses,
// so that patterns are compiled unchanged. One class is widened: [[:punct:]], which older versions take for less.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/allowance.h"

namespace kvcal {

/// Half-open range of bytes.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  size_t size() const { return end - begin; }
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A compiled pattern. Immutable after construction; several threads may search with it.
class Regex {
 public:
  /// Throws Error with Oniguruma's message when the pattern does not compile.
  explicit Regex(std::string pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  /// All matches from left to right. Empty matches count, except directly behind the previous match. Throws Error
  /// naming the pattern when the match stack or retry limit is hit: patterns come from files nobody vouches for.
  /// All searches of one `allowance` together are bounded too.
  std::vector<ByteRange> find_all(std::string_view text, Allowance& allowance) const;

  const std::string& pattern() const { return pattern_; }

 private:
  struct Compiled;
  std::string pattern_;
  std::unique_ptr<Compiled> compiled_;
};

/// All occurrences of a literal, left to right, not overlapping. An empty literal matches at every boundary, as a
/// regular expression would.
std::vector<ByteRange> find_all_literal(std::string_view text, std::string_view literal);

}  // namespace kvcal
