// The vocabulary of models that name their tokens: {"token": id, ...}.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/json.h"

namespace kvcal {

/// Immutable after construction.
class Vocabulary {
 public:
  /// Reads the member "vocab" of a "model" object. Throws Error: no object, ids out of range.
  explicit Vocabulary(const Json& model);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<uint32_t> id_of(std::string_view token) const;
  /// The token with this id, or nullptr.
  const std::string* token_of(uint32_t id) const;
  size_t size() const { return ids_.size(); }
  /// One more than the largest id.
  size_t id_limit() const { return id_limit_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };

  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> ids_;
  std::unordered_map<uint32_t, const std::string*> tokens_;  // into ids_
  size_t id_limit_ = 0;
};

}  // namespace kvcal
