// Byte-pair encoding: the model of tokenizer.json that most of today's decoders use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/token_model.h"

namespace kvcal {

/// Greedy merging by rank, ties from the left. Immutable after construction.
class Bpe final : public TokenModel {
 public:
  /// Reads the "model" object of tokenizer.json. Throws Error: ids out of range or twice, a merge
  /// of tokens that are not in the vocabulary, dropout, an unk_token that is not in the vocabulary.
  explicit Bpe(const Json& model);

  std::optional<uint32_t> id_of(std::string_view token) const override;
  const std::string* token_of(uint32_t id) const override;
  size_t size() const override { return vocab_.size(); }
  size_t id_limit() const override { return id_limit_; }

 protected:
  /// Time is n log n in the length of the piece.
  std::vector<uint32_t> encode_piece(std::string_view piece) const override;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  struct Merge {
    uint32_t rank;
    uint32_t id;
  };
  struct Symbol;
  struct Candidate;

  void read_vocab(const Json& model);
  void read_merges(const Json& model);
  void add_merge(const std::string& left, const std::string& right, uint32_t rank);
  const Merge* find_merge(uint32_t left, uint32_t right) const;
  std::vector<uint32_t> initial_symbols(std::string_view piece) const;
  bool append_bytes(std::string_view symbol, std::vector<uint32_t>& ids) const;
  std::vector<uint32_t> merge(const std::vector<uint32_t>& symbols) const;

  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> vocab_;
  std::unordered_map<uint32_t, const std::string*> tokens_;  // into vocab_
  std::unordered_map<uint64_t, Merge> merges_;               // key: left id, right id
  std::optional<uint32_t> byte_tokens_[256];                 // <0x00> to <0xFF>
  std::optional<uint32_t> unk_;
  std::string continuing_prefix_, word_suffix_;
  size_t id_limit_ = 0;
  bool fuse_unk_ = false, byte_fallback_ = false, ignore_merges_ = false;
};

}  // namespace kvcal
