#include "base/error.h"

#include <algorithm>
#include <numeric>

#include "base/lines.h"

namespace kvcal {
namespace {

constexpr size_t kQuotedLimit = 160;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  if (text.size() <= limit) return printable(text);
  return printable(text.substr(0, limit / 2)) + "..." + printable(text.substr(text.size() - limit / 4));
}

std::string quoted(std::string_view text) { return "'" + printable(text, kQuotedLimit) + "'"; }

std::string nearest_match(std::string_view name, std::span<const std::string> candidates) {
  constexpr size_t kLongestName = 200;
  if (name.size() > kLongestName) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& c : candidates) {
    const size_t d = edit_distance(name, c);
    if (d < best_distance) {
      best_distance = d;
      best = c;
    }
  }
  return best;
}

namespace {

/// "fp8_e4m3" for "fp8": the shortest name that begins so. Not for "fp8_e4m3fn", which more likely is "fp8_e4m3" with
/// something behind it.
std::string completed(std::string_view name, std::span<const std::string> known) {
  constexpr size_t kShortest = 3;
  std::string best;
  for (const std::string& k : known)
    if (k.size() >= kShortest && name.starts_with(k)) return "";
  for (const std::string& k : known)
    if (name.size() >= kShortest && k.starts_with(name) && (best.empty() || k.size() < best.size())) best = k;
  return best;
}

}  // namespace

void fail_unknown(std::string_view kind, std::string_view name, std::span<const std::string> known) {
  std::string message = "unknown " + std::string(kind) + " " + quoted(name);
  std::string near = completed(name, known);
  if (near.empty()) near = nearest_match(name, known);
  if (!near.empty()) message += "; did you mean '" + near + "'?";
  message += known.empty() ? "" : "; known: ";
  for (size_t i = 0; i < known.size(); ++i) message += (i ? ", " : "") + known[i];
  fail(message);
}

}  // namespace kvcal
