#include "jinja/python_text.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal::python {
namespace {

using jinja::Value;

// Asks `in` about no character but those that go, and one at each side.
template <class In>
std::string_view strip_while(std::string_view text, Side side, In&& in) {
  if (side != Side::Right)
    while (!text.empty()) {
      size_t i = 0;
      if (!in(next_code_point(text, i))) break;
      text.remove_prefix(i);
    }
  if (side != Side::Left)
    while (!text.empty()) {
      size_t begin = text.size() - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      size_t i = begin;
      if (!in(next_code_point(text, i))) break;
      text.remove_suffix(text.size() - begin);
    }
  return text;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

std::string reversed(std::string_view text) { return std::string(text.rbegin(), text.rend()); }

// White space as a property of characters that are paid for.
auto paid_space(Budget& budget, bool wanted = true) {
  return [&budget, wanted](char32_t c) {
    budget.step(jinja::kCharacterSteps);
    return is_space(c) == wanted;
  };
}

}  // namespace

bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view strip(Budget& budget, std::string_view text, Side side) {
  return strip_while(text, side, paid_space(budget));
}

std::string_view strip_source(std::string_view text, Side side) { return strip_while(text, side, is_space); }

std::string_view strip(Budget& budget, std::string_view text, Side side, std::string_view characters) {
  const jinja::Held held(&budget, 4 * characters.size());
  const std::u32string set = to_code_points(characters);
  return strip_while(text, side, [&](char32_t c) {
    budget.step(jinja::kCharacterSteps + set.size());
    return set.find(c) != std::u32string::npos;
  });
}

// memmem is linear whatever is looked for, where std::string_view::find takes the product of both lengths.
size_t find(Budget& budget, std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  budget.step(jinja::kValueSteps + 4 * part.size());
  if (part.empty()) return from;
  const auto* at = static_cast<const char*>(memmem(text.data() + from, text.size() - from, part.data(), part.size()));
  const size_t found = at ? static_cast<size_t>(at - text.data()) : std::string_view::npos;
  budget.steps(std::min(found, text.size()) - from, 4);  // known only now, and never more than one text
  return found;
}

size_t rfind(Budget& budget, std::string_view text, std::string_view part) {
  const jinja::Held held(&budget, text.size() + part.size());
  const size_t behind = find(budget, reversed(text), reversed(part));
  return behind == std::string_view::npos ? behind : text.size() - behind - part.size();
}

List split(Budget& budget, std::string_view text, std::string_view separator, int64_t limit) {
  List out(&budget);
  size_t from = 0;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t at = find(budget, text, separator, from);
    if (at == std::string_view::npos) break;
    out.push_back(Value::text(&budget, text.substr(from, at - from)));
    from = at + separator.size();
  }
  out.push_back(Value::text(&budget, text.substr(from)));
  return out;
}

// As split, from the other end: of everything backwards.
List rsplit(Budget& budget, std::string_view text, std::string_view separator, int64_t limit) {
  const jinja::Held held(&budget, text.size() + separator.size());
  const std::string backwards = reversed(text), part = reversed(separator);
  List out(&budget);
  size_t from = 0;
  const auto push = [&](size_t at) { out.push_back(Value::text(&budget, text.substr(text.size() - at, at - from))); };
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t at = find(budget, backwards, part, from);
    if (at == std::string_view::npos) break;
    push(at);
    from = at + part.size();
  }
  push(text.size());
  std::reverse(out.begin(), out.end());
  return out;
}

List split_space(Budget& budget, std::string_view text, int64_t limit) {
  List out(&budget);
  text = strip(budget, text, Side::Left);
  while (!text.empty()) {
    // The rest keeps its trailing white space.
    const bool last = limit >= 0 && static_cast<int64_t>(out.size()) >= limit;
    const std::string_view rest = last ? std::string_view() : strip_while(text, Side::Left, paid_space(budget, false));
    out.push_back(Value::text(&budget, text.substr(0, text.size() - rest.size())));
    text = strip(budget, rest, Side::Left);
  }
  return out;
}

List rsplit_space(Budget& budget, std::string_view text, int64_t limit) {
  if (limit < 0) return split_space(budget, text, -1);
  List out(&budget);
  text = strip(budget, text, Side::Right);
  while (!text.empty()) {
    const bool last = static_cast<int64_t>(out.size()) >= limit;
    const std::string_view rest = last ? std::string_view() : strip_while(text, Side::Right, paid_space(budget, false));
    out.push_back(Value::text(&budget, text.substr(rest.size())));
    text = strip(budget, rest, Side::Right);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

List split_lines(Budget& budget, std::string_view text, bool keep_ends) {
  budget.steps(text.size(), jinja::kCharacterSteps);
  List out(&budget);
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = next_code_point(text, i);
    if (!is_line_end(c)) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    out.push_back(Value::text(&budget, text.substr(begin, (keep_ends ? i : at) - begin)));
    begin = i;
  }
  if (begin < text.size()) out.push_back(Value::text(&budget, text.substr(begin)));
  return out;
}

void replace(PaidText& out, std::string_view text, std::string_view from, std::string_view to, int64_t limit) {
  size_t done = 0;  // bytes of the text
  for (int64_t n = 0; limit < 0 || n < limit; ++n) {
    // An empty part is behind every character, and before the first.
    const size_t skipped = from.empty() && n > 0 ? (done < text.size() ? utf8_length(text[done]) : SIZE_MAX) : 0;
    const size_t at = skipped == SIZE_MAX ? std::string_view::npos : find(out.budget(), text, from, done + skipped);
    if (at == std::string_view::npos) break;
    out += text.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  out += text.substr(done);
}

size_t length(Budget& budget, std::string_view text) {
  budget.step(text.size());
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

int64_t count(Budget& budget, std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<int64_t>(length(budget, text)) + 1;
  int64_t n = 0;
  for (size_t i = find(budget, text, part); i != std::string_view::npos; i = find(budget, text, part, i + part.size()))
    ++n;
  return n;
}

}  // namespace kvcal::python
