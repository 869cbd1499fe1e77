// Added tokens: found in the text itself before it is split, leftmost and longest first.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "tokenizer/piece_trie.h"
#include "tokenizer/segment.h"

namespace kvcal {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // swallows white space before it
  bool rstrip = false;       // swallows white space behind it
  bool normalized = true;    // looked for after normalization, its content normalized too
  bool special = false;      // left out by decode with skip_special; has no influence on where it is found
  friend bool operator==(const AddedToken&, const AddedToken&) = default;
};

/// From an object with "content" and flags; normalized unless special where nothing is said. Throws Error.
AddedToken read_added_token(const Json& json);

/// A stretch of text, or an added token in its place.
struct Stretch {
  ByteRange span;
  std::optional<uint32_t> id;
};

/// Finds the leftmost-longest of a set of byte strings; where two are equal the one added first counts.
class StringMatcher {
 public:
  /// Of texts and their values. Throws Error: texts that PieceTrie refuses.
  explicit StringMatcher(const std::vector<std::pair<std::string, uint32_t>>& texts = {});
  struct Match {
    ByteRange span;
    uint32_t value;
  };
  std::optional<Match> find(std::string_view text, size_t from, Allowance& allowance) const;

 private:
  std::optional<PieceTrie> trie_;
  std::vector<uint32_t> values_;
  bool first_byte_[256] = {};
};

class AddedTokens {
 public:
  using TokenToId = std::function<std::optional<uint32_t>(const std::string&)>;

  /// Adds tokens in order. A content that the model knows keeps the model's id; a new one gets the next free id, which
  /// is what the reference does whatever id the file states. Call prepare() afterwards.
  void add(const std::vector<AddedToken>& tokens, size_t model_size, const TokenToId& model);

  /// Builds the matchers; `normalize` is the tokenizer's own.
  void prepare(const std::function<std::string(const std::string&)>& normalize);

  /// Cuts at the tokens with normalized:false (raw text), or with normalized:true (text after normalization).
  std::vector<Stretch> split_raw(std::string_view text, Allowance& allowance) const {
    return split(text, raw_, allowance);
  }
  std::vector<Stretch> split_normalized(std::string_view text, Allowance& allowance) const {
    return split(text, normalized_, allowance);
  }

  /// Of all contents.
  size_t bytes() const;
  std::optional<uint32_t> id_of(const std::string& content) const;
  const AddedToken* find(uint32_t id) const;
  /// What decode puts in the place of the id: the content as the normalizer leaves it, if it is looked for that way.
  const std::string* decoded(uint32_t id) const;
  bool is_special(const std::string& content) const { return special_contents_.count(content) > 0; }
  /// From now on decode skips this content as a special token.
  void mark_special(const std::string& content) { special_contents_.insert(content); }
  const std::unordered_map<std::string, uint32_t>& ids() const { return ids_; }

 private:
  std::vector<Stretch> split(std::string_view text, const StringMatcher& matcher, Allowance& allowance) const;

  std::unordered_map<std::string, uint32_t> ids_;
  std::unordered_map<uint32_t, AddedToken> tokens_;
  std::unordered_map<uint32_t, std::string> decoded_;
  std::vector<AddedToken> special_, plain_;  // in the order added: special ones are tried first
  std::unordered_set<std::string> special_contents_;
  uint32_t next_id_ = 0;
  StringMatcher raw_, normalized_;
};

}  // namespace kvcal
