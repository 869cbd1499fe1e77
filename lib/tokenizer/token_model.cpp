#include "tokenizer/token_model.h"

#include <cstdio>

#include "tokenizer/bpe.h"
#include "tokenizer/component.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_piece.h"

namespace kvcal {
namespace {

constexpr size_t kLongestCachedPiece = 256;  // bytes
constexpr size_t kCacheEntries = 200'000;    // then the cache starts anew

// Files older than the key are told apart by their vocabulary.
std::string model_type(const Json& model) {
  if (model.contains("type")) return component_type(model, "model");
  const Json* vocab = find_member(model, "vocab");
  return vocab && vocab->is_array() ? "Unigram" : "BPE";
}

}  // namespace

void TokenModel::encode(std::string_view piece, Allowance& allowance, Cache& cache, std::vector<uint32_t>& ids) const {
  if (piece.empty()) return;
  allowance.look_at(piece.size());
  if (piece.size() > kLongestCachedPiece) {
    const std::vector<uint32_t> fresh = encode_piece(piece, allowance);
    ids.insert(ids.end(), fresh.begin(), fresh.end());
    return;
  }
  if (cache.size() >= kCacheEntries) cache.clear();
  const auto [it, inserted] = cache.try_emplace(std::string(piece));
  if (inserted) it->second = encode_piece(piece, allowance);
  ids.insert(ids.end(), it->second.begin(), it->second.end());
}

std::string byte_token_name(unsigned char byte) {
  char name[8];
  std::snprintf(name, sizeof name, "<0x%02X>", byte);
  return name;
}

std::unique_ptr<TokenModel> make_token_model(const Json& model) {
  const std::string type = model_type(model);
  if (type == "BPE") return std::make_unique<Bpe>(model);
  if (type == "Unigram") return std::make_unique<Unigram>(model);
  if (type == "WordPiece") return std::make_unique<WordPiece>(model);
  fail_unsupported("model", type, {"BPE", "Unigram", "WordPiece"});
}

}  // namespace kvcal
