#include "tokenizer/word_piece.h"

#include <algorithm>

namespace kvcal {
namespace {

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

WordPiece::WordPiece(const Json& model)
    : vocabulary_(model),
      unk_token_(get_string(model, "unk_token")),
      continuing_prefix_(get_string(model, "continuing_subword_prefix")),
      most_characters_(get_int(model, "max_input_chars_per_word")) {
  if (most_characters_ < 0)
    fail("max_input_chars_per_word is " + std::to_string(most_characters_) + ", expected at least 0");
  std::vector<std::string> tokens;
  for (const auto& [token, id] : model["vocab"].items()) {
    tokens.push_back(token);
    ids_.push_back(id.get<uint32_t>());
  }
  trie_.emplace(tokens);
}

std::vector<uint32_t> WordPiece::encode_piece(std::string_view word, Allowance&) const {
  if (count_characters(word) > most_characters_) return unknown(word);
  std::vector<uint32_t> ids;
  for (size_t begin = 0; begin < word.size();) {
    const std::string_view lead = begin == 0 ? std::string_view() : continuing_prefix_;
    const auto match = trie_->longest(lead, word.substr(begin));
    if (!match) return unknown(word);
    ids.push_back(ids_[match->value]);
    begin += match->bytes;
  }
  return ids;
}

std::vector<uint32_t> WordPiece::unknown(std::string_view word) const {
  const auto id = id_of(unk_token_);
  if (!id)
    fail("text has " + quoted(word) + ", which is unknown, and unk_token " + quoted(unk_token_) + " is not a token");
  return {*id};
}

}  // namespace kvcal
