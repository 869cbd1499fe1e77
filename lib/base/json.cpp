// Parsing. nlohmann's lexer and grammar drive a SAX handler that builds the tree and enforces the limits while it
// reads. Two things need care:
// * Bare NaN and Infinity are not JSON, and the lexer rejects them. They are overwritten beforehand, outside strings,
//   by numbers of the same length (so that positions in messages stay right); the handler recognizes them by position.
// * The input iterator reports how far the lexer has read, which gives the handler positions at no cost.
#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/read_file.h"

namespace kvcal {
namespace {

/// Walks the text and leaves the number of characters read so far where the handler can see it.
class TrackingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TrackingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  TrackingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  TrackingIterator operator++(int) {
    TrackingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const TrackingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const TrackingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

struct NonFinite {
  size_t end;  // offset one past the word
  double value;
};

/// Whether text[begin, end) stands where a whole value may stand, as far as its neighbors tell.
bool is_whole_value(std::string_view text, size_t begin, size_t end) {
  constexpr std::string_view kBefore = "[,: \t\r\n", kAfter = "],} \t\r\n";
  return (begin == 0 || kBefore.find(text[begin - 1]) != kBefore.npos) &&
         (end == text.size() || kAfter.find(text[end]) != kAfter.npos);
}

/// Overwrites NaN, Infinity and -Infinity outside strings by zeros of the same length; returns where they were.
std::vector<NonFinite> replace_non_finite(std::string& text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<NonFinite> found;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string) {
      if (text[i] == '\\')
        ++i;  // whatever is escaped does not end the string
      else if (text[i] == '"')
        in_string = false;
    } else if (text[i] == '"') {
      in_string = true;
    } else if (text.compare(i, 3, "NaN") == 0 && is_whole_value(text, i, i + 3)) {
      text.replace(i, 3, "0.0");
      found.push_back({i + 3, std::numeric_limits<double>::quiet_NaN()});
    } else if (text.compare(i, 8, "Infinity") == 0) {
      const bool negative = i > 0 && text[i - 1] == '-';
      if (!is_whole_value(text, i - (negative ? 1 : 0), i + 8)) continue;
      text.replace(i, 8, "0.000000");
      found.push_back({i + 8, negative ? -kInfinity : kInfinity});
    }
  }
  return found;
}

std::string line_and_column(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const size_t newline = before.rfind('\n');
  const size_t column = newline == std::string_view::npos ? before.size() : before.size() - newline - 1;
  return "line " + std::to_string(line) + ", column " + std::to_string(std::max<size_t>(column, 1));
}

class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, const JsonLimits& limits, std::vector<NonFinite> non_finite)
      : text_(text), limits_(limits), non_finite_(std::move(non_finite)), furthest_(text.data()) {}

  const char** furthest() { return &furthest_; }
  size_t offset() const { return static_cast<size_t>(furthest_ - text_.data()); }
  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr), true; }
  bool boolean(bool value) override { return add(value), true; }
  bool number_integer(number_integer_t value) override { return add(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return add(value), true; }
  bool number_float(number_float_t value, const string_t& text) override {
    // A number's end is known only from the character after it, which the lexer has then read (except at the very end).
    if (next_non_finite_ < non_finite_.size() && offset() >= non_finite_[next_non_finite_].end)
      value = non_finite_[next_non_finite_++].value;
    else if (limits_.keep_large_integers && text.find_first_not_of("-0123456789") == text.npos)
      return add(Json::binary({text.begin(), text.end()})), true;
    return add(value), true;
  }
  bool string(string_t& value) override { return add(std::move(value)), true; }
  bool binary(binary_t&) override { return false; }  // cannot occur in text
  bool start_array(size_t) override { return open(Json::array()), true; }
  bool start_object(size_t) override { return open(Json::object()), true; }
  bool key(string_t& value) override {
    // Not operator[], which searches linearly: a vocabulary of 250,000 entries would take minutes.
    auto& members = open_.back()->get_ref<Json::object_t&>();
    members.emplace_back(std::move(value), Json());
    return true;
  }
  bool end_array() override { return open_.pop_back(), true; }
  bool end_object() override {
    Json& object = *open_.back();
    refuse_duplicates(object.get_ref<const Json::object_t&>());
    open_.pop_back();
    if (limits_.allow_non_finite) collapse_float_object(object);
    return true;
  }

  bool parse_error(size_t position, const std::string& last_token, const nlohmann::detail::exception& e) override {
    // Of nlohmann's sentence only the parts that quote nothing from the file are safe to repeat.
    std::string what = e.what();
    const size_t cut = what.find("; last read: '");
    const size_t start = what.find(": ");
    std::string reason = what.find("406") < 40                       ? "number out of range"
                         : start != std::string::npos && start < cut ? what.substr(start + 2, cut - start - 2)
                                                                     : "syntax error";
    const size_t expected = what.rfind("; expected ");
    if (expected != std::string::npos && expected > cut) reason += what.substr(expected);
    fail_at(position, reason + "; last read " + quoted(last_token));
  }

 private:
  [[noreturn]] void fail_at(size_t offset, const std::string& reason) const {
    fail("not valid JSON at " + line_and_column(text_, offset) + ": " + reason);
  }

  template <class T>
  Json* add(T&& value) {
    if (++n_values_ > limits_.max_values)
      fail_at(offset(), "more than " + std::to_string(limits_.max_values) + " values");
    if (open_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      auto& elements = parent.get_ref<Json::array_t&>();
      elements.emplace_back(std::forward<T>(value));
      return &elements.back();
    }
    Json& member = parent.get_ref<Json::object_t&>().back().second;
    member = std::forward<T>(value);
    return &member;
  }

  void open(Json container) {
    if (open_.size() >= static_cast<size_t>(limits_.max_depth))
      fail_at(offset(), "nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    // A parent grows only while its last element is closed, so these pointers stay valid.
    open_.push_back(add(std::move(container)));
  }

  void refuse_duplicates(const Json::object_t& members) {
    keys_.clear();
    for (const auto& member : members) keys_.push_back(&member.first);
    std::sort(keys_.begin(), keys_.end(), [](const auto* a, const auto* b) { return *a < *b; });
    const auto twice =
        std::adjacent_find(keys_.begin(), keys_.end(), [](const auto* a, const auto* b) { return *a == *b; });
    if (twice != keys_.end())
      fail_at(offset(), "key " + quoted(**twice) + " appears twice in the object that ends here");
  }

  static void collapse_float_object(Json& object) {
    if (object.size() != 1 || object.begin().key() != "__float__" || !object.begin()->is_string()) return;
    const std::string word = object.begin()->get<std::string>();
    if (word == "NaN") object = std::numeric_limits<double>::quiet_NaN();
    if (word == "Infinity") object = std::numeric_limits<double>::infinity();
    if (word == "-Infinity") object = -std::numeric_limits<double>::infinity();
  }

  std::string_view text_;
  JsonLimits limits_;
  std::vector<NonFinite> non_finite_;
  size_t next_non_finite_ = 0;
  const char* furthest_;
  Json root_;
  std::vector<Json*> open_;
  std::vector<const std::string*> keys_;
  size_t n_values_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail("JSON text has " + std::to_string(text.size()) + " bytes, expected at most " +
         std::to_string(limits.max_bytes));
  // The lexer takes a zero byte for the end of the text and would ignore whatever follows it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail("not valid JSON at " + line_and_column(text, zero + 1) + ": a zero byte");
  std::string rewritten;
  std::vector<NonFinite> non_finite;
  if (limits.allow_non_finite && (text.find("NaN") != text.npos || text.find("Infinity") != text.npos)) {
    rewritten = text;
    non_finite = replace_non_finite(rewritten);
    text = rewritten;
  }
  TreeBuilder builder(text, limits, std::move(non_finite));
  const TrackingIterator begin(text.data(), builder.furthest());
  const TrackingIterator end(text.data() + text.size(), builder.furthest());
  if (!Json::sax_parse(begin, end, &builder)) fail("not valid JSON");
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  const std::string text = read_file(path, limits.max_bytes);
  return while_doing(quoted(path.string()), [&] { return parse_json(text, limits); });
}

}  // namespace kvcal
