// The tokens <0x00> to <0xFF> that stand for single bytes where a model falls back to them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/token_model.h"

namespace kvcal {

class ByteTokens {
 public:
  /// Looks them up; a model may have only some.
  void find_in(const TokenModel& model) {
    for (size_t b = 0; b < ids_.size(); ++b) ids_[b] = model.id_of(byte_token_name(static_cast<unsigned char>(b)));
  }

  /// Appends the ids of the text's bytes. False, and nothing appended, where one of them has no token.
  bool append(std::string_view text, std::vector<uint32_t>& ids) const {
    for (const char c : text)
      if (!ids_[static_cast<unsigned char>(c)]) return false;
    for (const char c : text) ids.push_back(*ids_[static_cast<unsigned char>(c)]);
    return true;
  }

 private:
  std::array<std::optional<uint32_t>, 256> ids_;
};

}  // namespace kvcal
