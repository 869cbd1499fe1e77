// WordPiece: the longest token that a word begins with, then the longest that goes on, as BERT has it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/piece_trie.h"
#include "tokenizer/token_model.h"
#include "tokenizer/vocabulary.h"

namespace kvcal {

/// Immutable after construction.
class WordPiece final : public TokenModel {
 public:
  /// Reads the "model" object of tokenizer.json. Throws Error: ids out of range, tokens that are too long for a
  /// PieceTrie, no unk_token, continuing_subword_prefix or max_input_chars_per_word, or a negative one.
  explicit WordPiece(const Json& model);

  std::optional<uint32_t> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(uint32_t id) const override { return vocabulary_.token_of(id); }
  size_t size() const override { return vocabulary_.size(); }
  size_t id_limit() const override { return vocabulary_.id_limit(); }

 protected:
  /// A word of which some part is no token, or with too many characters, is one unknown token. Time is linear in the
  /// length of the word times that of the longest token.
  std::vector<uint32_t> encode_piece(std::string_view word, Allowance&) const override;

 private:
  std::vector<uint32_t> unknown(std::string_view word) const;

  Vocabulary vocabulary_;
  std::vector<uint32_t> ids_;  // by value of the trie
  std::optional<PieceTrie> trie_;
  std::string unk_token_, continuing_prefix_;
  int64_t most_characters_;
};

}  // namespace kvcal
