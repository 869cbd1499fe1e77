// Byte-pair encoding: the model of tokenizer.json that most of today's decoders use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/byte_tokens.h"
#include "tokenizer/token_model.h"
#include "tokenizer/vocabulary.h"

namespace kvcal {

/// Greedy merging by rank, ties from the left. Immutable after construction.
class Bpe final : public TokenModel {
 public:
  /// Reads the "model" object of tokenizer.json. Throws Error: ids out of range or twice, a merge
  /// of tokens that are not in the vocabulary, dropout, an unk_token that is not in the vocabulary.
  explicit Bpe(const Json& model);

  std::optional<uint32_t> id_of(std::string_view token) const override { return vocabulary_.id_of(token); }
  const std::string* token_of(uint32_t id) const override { return vocabulary_.token_of(id); }
  size_t size() const override { return vocabulary_.size(); }
  size_t id_limit() const override { return vocabulary_.id_limit(); }

 protected:
  /// Time is n log n in the length of the piece.
  std::vector<uint32_t> encode_piece(std::string_view piece, Allowance&) const override;

 private:
  struct Merge {
    uint32_t rank;
    uint32_t id;
  };
  struct Symbol;
  struct Candidate;

  void read_merges(const Json& model);
  void add_merge(const std::string& left, const std::string& right, uint32_t rank);
  const Merge* find_merge(uint32_t left, uint32_t right) const;
  std::vector<uint32_t> initial_symbols(std::string_view piece) const;
  std::vector<uint32_t> merge(const std::vector<uint32_t>& symbols) const;

  Vocabulary vocabulary_;
  std::unordered_map<uint64_t, Merge> merges_;  // key: left id, right id
  ByteTokens byte_tokens_;
  std::optional<uint32_t> unk_;
  std::string continuing_prefix_, word_suffix_;
  bool fuse_unk_ = false, byte_fallback_ = false, ignore_merges_ = false;
};

}  // namespace kvcal
