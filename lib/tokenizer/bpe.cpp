#include "tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "tokenizer/component.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr size_t kLongestAffix = 256;  // bytes; put to every character of a text

uint64_t pair_key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

}  // namespace

Bpe::Bpe(const Json& model) : vocabulary_(model) {
  if (const double dropout = get_number_or(model, "dropout", 0.0); dropout != 0.0)
    fail("model has dropout " + std::to_string(dropout) + ", expected none: its tokens would be random");
  continuing_prefix_ = get_string_or(model, "continuing_subword_prefix", "");
  word_suffix_ = get_string_or(model, "end_of_word_suffix", "");
  for (const std::string* affix : {&continuing_prefix_, &word_suffix_})
    if (affix->size() > kLongestAffix)
      fail("continuing_subword_prefix or end_of_word_suffix has " + std::to_string(affix->size()) + " bytes, at most " +
           std::to_string(kLongestAffix) + " are accepted");
  fuse_unk_ = get_bool_or(model, "fuse_unk", false);
  byte_fallback_ = get_bool_or(model, "byte_fallback", false);
  ignore_merges_ = get_bool_or(model, "ignore_merges", false);
  read_merges(model);
  if (const Json* unk = find_member(model, "unk_token")) {
    const std::string token = get_string(model, "unk_token");
    unk_ = id_of(token);
    if (!unk_) fail("unk_token " + quoted(token) + " is not in the vocabulary");
    static_cast<void>(unk);
  }
  byte_tokens_.find_in(*this);
}

void Bpe::read_merges(const Json& model) {
  const Json& list = component_list(model, "merges");
  merges_.reserve(list.size());
  uint32_t rank = 0;
  for (const Json& entry : list) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string()) {
      add_merge(entry[0].get_ref<const std::string&>(), entry[1].get_ref<const std::string&>(), rank++);
      continue;
    }
    if (entry.is_string()) {
      const std::string& text = entry.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;  // the first line of an old merges.txt
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        add_merge(text.substr(0, space), text.substr(space + 1), rank++);
        continue;
      }
    }
    fail("merge " + std::to_string(rank) + " is " + quoted(entry.dump()) +
         R"(, expected "left right" or ["left", "right"])");
  }
}

void Bpe::add_merge(const std::string& left, const std::string& right, uint32_t rank) {
  const auto required = [&](const std::string& token) {
    const auto id = id_of(token);
    if (!id)
      fail("merge " + std::to_string(rank) + " needs token " + quoted(token) + ", which is not in the vocabulary");
    return *id;
  };
  const uint32_t l = required(left), r = required(right);
  if (right.size() < continuing_prefix_.size())
    fail("merge " + std::to_string(rank) + ": " + quoted(right) + " is shorter than continuing_subword_prefix");
  merges_[pair_key(l, r)] = {rank, required(left + right.substr(continuing_prefix_.size()))};
}

const Bpe::Merge* Bpe::find_merge(uint32_t left, uint32_t right) const {
  const auto it = merges_.find(pair_key(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

std::vector<uint32_t> Bpe::encode_piece(std::string_view piece, Allowance&) const {
  if (ignore_merges_)
    if (const auto whole = id_of(piece)) return {*whole};
  return merge(initial_symbols(piece));
}

// One symbol per character: its token, its bytes, or the unknown token. Characters without any of them vanish, as in
// the reference; so does its order of an unknown one that waits for a fusion while bytes go ahead of it.
std::vector<uint32_t> Bpe::initial_symbols(std::string_view piece) const {
  std::vector<uint32_t> ids;
  ids.reserve(piece.size());
  bool unk_waiting = false;
  std::string decorated;
  for (size_t i = 0; i < piece.size();) {
    const size_t n = utf8_length(piece[i]);
    std::string_view symbol = piece.substr(i, n);
    if (!continuing_prefix_.empty() || !word_suffix_.empty()) {
      decorated = (i > 0 ? continuing_prefix_ : "") + std::string(symbol) + (i + n == piece.size() ? word_suffix_ : "");
      symbol = decorated;
    }
    i += n;
    if (const auto id = id_of(symbol)) {
      if (unk_waiting) ids.push_back(*unk_);
      unk_waiting = false;
      ids.push_back(*id);
    } else if (byte_fallback_ && byte_tokens_.append(symbol, ids)) {
      continue;
    } else if (unk_) {
      if (unk_waiting && !fuse_unk_) ids.push_back(*unk_);
      unk_waiting = true;
    }
  }
  if (unk_waiting) ids.push_back(*unk_);
  return ids;
}

// A symbol of the word while it is merged: a linked list, so that a merge moves nothing.
struct Bpe::Symbol {
  uint32_t id;
  int32_t previous, next;  // -1 at the ends
  bool alive;
};

struct Bpe::Candidate {
  uint32_t rank;
  int32_t position;  // of the left symbol
  uint32_t id;       // of the result
  // The queue gives the largest: lowest rank first, then leftmost.
  bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : position > o.position; }
};

std::vector<uint32_t> Bpe::merge(const std::vector<uint32_t>& symbols) const {
  const auto n = static_cast<int32_t>(symbols.size());
  std::vector<Symbol> word(symbols.size());
  for (int32_t i = 0; i < n; ++i)
    word[static_cast<size_t>(i)] = {symbols[static_cast<size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1, true};
  const auto at = [&](int32_t i) -> Symbol& { return word[static_cast<size_t>(i)]; };

  std::vector<Candidate> found;
  for (int32_t i = 0; i + 1 < n; ++i)
    if (const Merge* m = find_merge(at(i).id, at(i + 1).id)) found.push_back({m->rank, i, m->id});
  std::priority_queue<Candidate> queue(std::less<Candidate>{}, std::move(found));
  const auto offer = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    if (const Merge* m = find_merge(at(left).id, at(right).id)) queue.push({m->rank, left, m->id});
  };

  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol& left = at(c.position);
    if (!left.alive || left.next < 0) continue;
    Symbol& right = at(left.next);
    // One of the two may have been merged with another neighbor since.
    const Merge* m = find_merge(left.id, right.id);
    if (!m || m->id != c.id) continue;
    left.id = c.id;
    right.alive = false;
    left.next = right.next;
    if (left.next >= 0) at(left.next).previous = c.position;
    offer(left.previous, c.position);
    offer(c.position, left.next);
  }

  std::vector<uint32_t> ids;
  for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = at(i).next) ids.push_back(at(i).id);
  return ids;
}

}  // namespace kvcal
