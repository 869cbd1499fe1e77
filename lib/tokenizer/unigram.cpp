#include "tokenizer/unigram.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "tokenizer/component.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

constexpr double kUnkPenalty = 10;  // SentencePiece's, below the lowest score
constexpr uint32_t kNoPart = std::numeric_limits<uint32_t>::max();

double power_of_ten(int exponent) {
  const std::string text = "1e" + std::to_string(exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The score that the reference reads where the file says `nearest`. It does not round decimals correctly: it takes the
// digits as an integer and divides by a power of ten, so that one in six scores differs in its last bit. Paths of the
// same pieces in another order tie or do not tie by that bit. Files hold the shortest digits, which are had from the
// number itself.
double score_as_read(double nearest) {
  if (!std::isfinite(nearest)) return nearest;
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, std::abs(nearest), std::chars_format::scientific).ptr;
  const char* mark = std::find(text, end, 'e');
  uint64_t digits = 0;
  int exponent = 0, fraction_digits = 0;
  for (const char* c = text; c != mark; ++c)
    if (*c != '.') digits = digits * 10 + static_cast<uint64_t>(*c - '0');
  if (mark - text > 2) fraction_digits = static_cast<int>(mark - text) - 2;
  std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, exponent);
  exponent -= fraction_digits;
  double score = static_cast<double>(digits);
  for (; exponent < -308; exponent += 308) score /= 1e308;
  score = exponent < 0 ? score / power_of_ten(-exponent) : score * power_of_ten(exponent);
  return nearest < 0 ? -score : score;
}

double read_score(const Json& value) {
  if (value.is_number_integer()) return value.get<double>();
  return score_as_read(value.get<double>());
}

}  // namespace

Unigram::Unigram(const Json& model) {
  read_vocab(model);
  trie_.emplace(pieces_);
  if (find_member(model, "unk_id")) {
    const int64_t id = get_int(model, "unk_id");
    if (id < 0 || id >= static_cast<int64_t>(pieces_.size()))
      fail("unk_id is " + std::to_string(id) + ", expected an id of the " + std::to_string(pieces_.size()) +
           " pieces of the vocabulary");
    unk_ = static_cast<uint32_t>(id);
  }
  byte_fallback_ = get_bool_or(model, "byte_fallback", false);
  byte_tokens_.find_in(*this);
}

void Unigram::read_vocab(const Json& model) {
  const Json& vocab = component_list(model, "vocab");
  pieces_.reserve(vocab.size());
  scores_.reserve(vocab.size());
  double lowest = 0;
  for (const Json& entry : vocab) {
    const bool pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number();
    const double score = pair ? read_score(entry[1]) : 0;
    if (!pair || !std::isfinite(score))
      fail("vocab entry " + std::to_string(pieces_.size()) + " is " + quoted(entry.dump()) +
           ", expected [piece, score]");
    lowest = pieces_.empty() ? score : std::min(lowest, score);
    pieces_.push_back(entry[0].get<std::string>());
    scores_.push_back(score);
  }
  unk_score_ = lowest - kUnkPenalty;
}

// The best way to cut the text up to some byte: where its last part begins, and which piece that is.
struct Unigram::Ending {
  double score = 0;
  uint32_t begin = kNoPart;
  uint32_t id = 0;
};

// A part of the best way: one piece, or a run of unknown ones.
struct Unigram::Part {
  uint32_t begin, end;  // bytes
  uint32_t id;
};

// Of equal sums the first found counts: from left to right, at one place the shorter piece before the longer, and the
// unknown piece last. A text needs the unknown piece as soon as it is better somewhere, even where it is not used.
std::vector<Unigram::Ending> Unigram::best_endings(std::string_view text, Allowance& allowance) const {
  if (text.size() >= kNoPart) fail("text of " + std::to_string(text.size()) + " bytes is too long for a Unigram model");
  std::vector<Ending> endings(text.size() + 1);
  for (uint32_t begin = 0; begin < text.size();) {
    const double before = endings[begin].score;
    const auto character = static_cast<uint32_t>(utf8_length(text[begin]));
    const auto is_better = [&](size_t length, double score) {
      const Ending& ending = endings[begin + length];
      return ending.begin == kNoPart || score + before > ending.score;
    };
    bool known = false;
    const size_t seen = trie_->for_each_prefix(text.substr(begin), [&](size_t length, uint32_t id) {
      if (is_better(length, scores_[id])) endings[begin + length] = {scores_[id] + before, begin, id};
      known = known || length == character;
    });
    allowance.look_at(seen);
    if (!known && is_better(character, unk_score_)) {
      if (!unk_)
        fail("text has " + quoted(text.substr(begin, character)) + ", which is not a piece, and there is no unk_id");
      endings[begin + character] = {unk_score_ + before, begin, *unk_};
    }
    begin += character;
  }
  return endings;
}

std::vector<Unigram::Part> Unigram::best_parts(std::string_view text, Allowance& allowance) const {
  const std::vector<Ending> endings = best_endings(text, allowance);
  std::vector<Part> parts;
  for (auto end = static_cast<uint32_t>(text.size()); end > 0;) {
    const Ending& last = endings[end];
    if (!parts.empty() && last.id == unk_ && parts.back().id == unk_)
      parts.back().begin = last.begin;
    else
      parts.push_back({last.begin, end, last.id});
    end = last.begin;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// A run of unknown characters is looked up as a whole, as the reference does: with high scores it may be a piece.
std::vector<uint32_t> Unigram::encode_piece(std::string_view text, Allowance& allowance) const {
  std::vector<uint32_t> ids;
  for (const Part& part : best_parts(text, allowance)) {
    const std::string_view token = text.substr(part.begin, part.end - part.begin);
    if (part.id != unk_)
      ids.push_back(part.id);
    else if (const auto whole = id_of(token))
      ids.push_back(*whole);
    else if (!byte_fallback_ || !byte_tokens_.append(token, ids))
      ids.push_back(part.id);
  }
  return ids;
}

}  // namespace kvcal
