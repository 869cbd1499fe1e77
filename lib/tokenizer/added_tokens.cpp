#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

// Bounds the work per character of text. The longest added tokens met are runs of a few hundred spaces.
constexpr size_t kLongestToken = 4096;  // bytes

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t i = text.size() - 1;
  while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80) --i;
  return is_word(next_code_point(text, i));
}

bool starts_with_word(std::string_view text) {
  size_t i = 0;
  return !text.empty() && is_word(next_code_point(text, i));
}

}  // namespace

AddedToken read_added_token(const Json& j) {
  if (!j.is_object()) fail("added token is " + std::string(j.type_name()) + ", expected an object");
  AddedToken t;
  t.content = get_string(j, "content");
  t.single_word = get_bool_or(j, "single_word", false);
  t.lstrip = get_bool_or(j, "lstrip", false);
  t.rstrip = get_bool_or(j, "rstrip", false);
  t.special = get_bool_or(j, "special", false);
  t.normalized = get_bool_or(j, "normalized", !t.special);
  return t;
}

void StringMatcher::add(std::string_view text, uint32_t value) {
  if (text.empty()) return;  // would match everywhere; a normalizer can make a content empty
  first_byte_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (char c : text) {
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    const auto [it, inserted] = nodes_[node].next.try_emplace(static_cast<unsigned char>(c), fresh);
    node = it->second;
    if (inserted) nodes_.emplace_back();
  }
  if (!nodes_[node].value) nodes_[node].value = value;
}

std::optional<StringMatcher::Match> StringMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!first_byte_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const auto it = nodes_[node].next.find(static_cast<unsigned char>(text[i]));
      if (it == nodes_[node].next.end()) break;
      node = it->second;
      if (nodes_[node].value) longest = Match{{begin, i + 1}, *nodes_[node].value};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

void AddedTokens::add(const std::vector<AddedToken>& tokens, size_t model_size, const TokenToId& model) {
  for (const AddedToken& t : tokens) {
    if (t.content.size() > kLongestToken)
      fail("added token " + quoted(t.content) + " has " + std::to_string(t.content.size()) + " bytes, at most " +
           std::to_string(kLongestToken) + " are accepted");
    if (t.special && !t.content.empty() && special_contents_.insert(t.content).second) special_.push_back(t);
  }
  next_id_ = std::max(next_id_, static_cast<uint32_t>(model_size));
  for (const AddedToken& t : tokens) {
    if (t.content.empty()) continue;
    std::optional<uint32_t> id = id_of(t.content);
    if (!id) id = model(t.content);
    if (id)
      if (const AddedToken* known = find(*id); known && *known == t) continue;
    if (!id) id = next_id_;
    next_id_ = std::max(next_id_, *id + 1);
    ids_[t.content] = *id;
    tokens_[*id] = t;
    if (!special_contents_.count(t.content)) plain_.push_back(t);
  }
}

void AddedTokens::prepare(const std::function<std::string(const std::string&)>& normalize) {
  raw_ = {};
  normalized_ = {};
  for (const auto* list : {&special_, &plain_})
    for (const AddedToken& t : *list) {
      const uint32_t id = ids_.at(t.content);
      if (tokens_.at(id).normalized)  // flags of a later addition count
        normalized_.add(normalize(t.content), id);
      else
        raw_.add(t.content, id);
    }
  decoded_.clear();
  for (const auto& [id, t] : tokens_) decoded_[id] = t.normalized ? normalize(t.content) : t.content;
}

std::vector<Stretch> AddedTokens::split(std::string_view text, const StringMatcher& matcher) const {
  std::vector<Stretch> out;
  size_t done = 0;
  size_t from = 0;
  while (const auto m = matcher.find(text, from)) {
    size_t begin = m->span.begin, end = m->span.end;
    from = end;
    const AddedToken& t = tokens_.at(m->value);
    if (t.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    // White space that the token before has swallowed is not swallowed again.
    if (t.lstrip) begin = std::max(begin - trailing_white_space(text.substr(0, begin)), done);
    if (t.rstrip) end += leading_white_space(text.substr(end));
    if (done < begin) out.push_back({{done, begin}, std::nullopt});
    // A token of white space may lie wholly in what the one before has swallowed; then it is gone.
    if (begin < end) out.push_back({{begin, end}, m->value});
    done = end;  // may lie before what was swallowed; the reference reads that white space again
  }
  if (done < text.size()) out.push_back({{done, text.size()}, std::nullopt});
  return out;
}

std::optional<uint32_t> AddedTokens::id_of(const std::string& content) const {
  const auto it = ids_.find(content);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

const std::string* AddedTokens::decoded(uint32_t id) const {
  const auto it = decoded_.find(id);
  return it == decoded_.end() ? nullptr : &it->second;
}

const AddedToken* AddedTokens::find(uint32_t id) const {
  const auto it = tokens_.find(id);
  return it == tokens_.end() ? nullptr : &it->second;
}

}  // namespace kvcal
