// The "model" of tokenizer.json: what turns one piece of text into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "tokenizer/allowance.h"

namespace kvcal {

/// Ids are below 2^30, as they are int32 further on.
inline constexpr int64_t kLargestTokenId = (1 << 30) - 1;

/// Immutable after construction.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  /// Remembers the ids of short pieces, as text repeats its words. One per thread or call; bounded.
  using Cache = std::unordered_map<std::string, std::vector<uint32_t>>;

  /// Appends the ids of one piece of valid UTF-8. Throws Error: a character that the model has no token for, where it
  /// has no unknown token either and its kind of model needs one.
  void encode(std::string_view piece, Allowance& allowance, Cache& cache, std::vector<uint32_t>& ids) const;

  virtual std::optional<uint32_t> id_of(std::string_view token) const = 0;
  /// The token with this id, or nullptr.
  virtual const std::string* token_of(uint32_t id) const = 0;
  /// Number of tokens; ids may have holes and go beyond.
  virtual size_t size() const = 0;
  /// One more than the largest id.
  virtual size_t id_limit() const = 0;

 protected:
  /// The ids of one piece that is not empty.
  virtual std::vector<uint32_t> encode_piece(std::string_view piece, Allowance& allowance) const = 0;
};

/// The name of the token that stands for one byte where a model falls back to bytes: <0x00> to <0xFF>.
std::string byte_token_name(unsigned char byte);

/// Throws Error for another kind of model or a malformed one.
std::unique_ptr<TokenModel> make_token_model(const Json& model);

}  // namespace kvcal
