// Unigram: of all ways to split a text into pieces of the vocabulary, the one with the largest sum of scores, as
// SentencePiece has it and as the reference tokenizer library reads it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_tokens.h"
#include "tokenizer/piece_trie.h"
#include "tokenizer/token_model.h"

namespace kvcal {

/// Immutable after construction.
class Unigram final : public TokenModel {
 public:
  /// Reads the "model" object of tokenizer.json; a piece's id is its place in the vocabulary, and of equal pieces the
  /// last counts. Throws Error: entries that are not [piece, finite score], pieces that are too long for a PieceTrie,
  /// an unk_id that is not in the vocabulary.
  explicit Unigram(const Json& model);

  std::optional<uint32_t> id_of(std::string_view token) const override { return trie_->find(token); }
  const std::string* token_of(uint32_t id) const override { return id < pieces_.size() ? &pieces_[id] : nullptr; }
  size_t size() const override { return pieces_.size(); }
  size_t id_limit() const override { return pieces_.size(); }

 protected:
  /// Time is linear in the length of the text times that of the longest piece that it begins with somewhere.
  std::vector<uint32_t> encode_piece(std::string_view text, Allowance& allowance) const override;

 private:
  struct Ending;
  struct Part;

  void read_vocab(const Json& model);
  std::vector<Ending> best_endings(std::string_view text, Allowance& allowance) const;
  std::vector<Part> best_parts(std::string_view text, Allowance& allowance) const;

  std::vector<std::string> pieces_;  // by id
  std::vector<double> scores_;       // by id
  std::optional<PieceTrie> trie_;
  std::optional<uint32_t> unk_;
  ByteTokens byte_tokens_;
  double unk_score_ = 0;
  bool byte_fallback_ = false;
};

}  // namespace kvcal
