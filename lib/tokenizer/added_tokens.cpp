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

StringMatcher::StringMatcher(const std::vector<std::pair<std::string, uint32_t>>& texts) {
  std::unordered_set<std::string_view> seen;
  std::vector<std::string> pieces;
  for (const auto& [text, value] : texts) {
    // An empty one would match everywhere; a normalizer can make a content empty.
    if (text.empty() || !seen.insert(text).second) continue;
    first_byte_[static_cast<unsigned char>(text[0])] = true;
    pieces.push_back(text);
    values_.push_back(value);
  }
  if (!pieces.empty()) trie_.emplace(pieces);
}

std::optional<StringMatcher::Match> StringMatcher::find(std::string_view text, size_t from,
                                                        Allowance& allowance) const {
  for (size_t begin = from; trie_ && begin < text.size(); ++begin) {
    if (!first_byte_[static_cast<unsigned char>(text[begin])]) continue;
    size_t seen = 0;
    const auto longest = trie_->longest({}, text.substr(begin), &seen);
    allowance.look_at(seen);
    if (longest) return Match{{begin, begin + longest->bytes}, values_[longest->value]};
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
  std::vector<std::pair<std::string, uint32_t>> raw, normalized;
  for (const auto* list : {&special_, &plain_})
    for (const AddedToken& t : *list) {
      const uint32_t id = ids_.at(t.content);
      if (tokens_.at(id).normalized)  // flags of a later addition count
        normalized.emplace_back(normalize(t.content), id);
      else
        raw.emplace_back(t.content, id);
    }
  raw_ = StringMatcher(raw);
  normalized_ = StringMatcher(normalized);
  decoded_.clear();
  for (const auto& [id, t] : tokens_) decoded_[id] = t.normalized ? normalize(t.content) : t.content;
}

std::vector<Stretch> AddedTokens::split(std::string_view text, const StringMatcher& matcher,
                                        Allowance& allowance) const {
  std::vector<Stretch> out;
  size_t done = 0;
  size_t from = 0;
  ByteRange space;  // the last white space that was swallowed behind a token: looked at once
  while (const auto m = matcher.find(text, from, allowance)) {
    size_t begin = m->span.begin, end = m->span.end;
    from = end;
    const AddedToken& t = tokens_.at(m->value);
    if (t.single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end)))) continue;
    // White space that the token before has swallowed is not swallowed again.
    if (t.lstrip && begin > done) begin -= trailing_white_space(text.substr(done, begin - done));
    begin = t.lstrip ? std::max(begin, done) : begin;
    if (t.rstrip) {
      if (end < space.begin || end > space.end) space = {end, end + leading_white_space(text.substr(end))};
      end = space.end;
    }
    if (done < begin) out.push_back({{done, begin}, std::nullopt});
    // A token of white space may lie wholly in what the one before has swallowed; then it is gone.
    if (begin < end) out.push_back({{begin, end}, m->value});
    done = end;  // may lie before what was swallowed; the reference reads that white space again
  }
  if (done < text.size()) out.push_back({{done, text.size()}, std::nullopt});
  return out;
}

size_t AddedTokens::bytes() const {
  size_t bytes = 0;
  for (const auto& [content, id] : ids_) bytes += content.size();
  return bytes;
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
