#include "tokenizer/vocabulary.h"

#include <algorithm>

#include "tokenizer/token_model.h"

namespace kvcal {

Vocabulary::Vocabulary(const Json& model) {
  const Json* vocab = find_member(model, "vocab");
  if (!vocab || !vocab->is_object()) fail("model has no vocab object");
  ids_.reserve(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    const bool whole = id.is_number_integer() && (id.is_number_unsigned() || id.get<int64_t>() >= 0);
    if (!whole || id.get<uint64_t>() > static_cast<uint64_t>(kLargestTokenId))
      fail("vocab entry " + quoted(token) + " has id " + id.dump() + ", expected an integer from 0 to " +
           std::to_string(kLargestTokenId));
    const auto n = id.get<uint32_t>();
    const auto it = ids_.emplace(token, n).first;
    // Two names for one id do occur (padding entries); the reference keeps either. The first is as good.
    tokens_.emplace(n, &it->first);
    id_limit_ = std::max(id_limit_, size_t{n} + 1);
  }
}

std::optional<uint32_t> Vocabulary::id_of(std::string_view token) const {
  const auto it = ids_.find(token);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

const std::string* Vocabulary::token_of(uint32_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : it->second;
}

}  // namespace kvcal
