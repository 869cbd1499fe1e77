#include "documents/output_pattern.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <vector>

namespace kvcal::documents {
namespace {

using Words = std::vector<std::string>;

// What another processor computes differs by less: of a KL in the last bits of bf16 little is the same.
constexpr double kTolerance = 0.2, kOfSmall = 0.6;

// A sentence goes on behind two spaces: where it breaks depends on the widths of its figures.
std::vector<Words> lines_of(std::string_view text) {
  std::vector<Words> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) {
    const bool goes_on =
        line.size() > 2 && line.starts_with("  ") && line[2] != ' ' && !lines.empty() && lines.back() != Words{"..."};
    std::istringstream words(line);
    Words& all = goes_on ? lines.back() : lines.emplace_back();
    for (std::string word; words >> word;) all.push_back(word);
  }
  return lines;
}

// "1,108,864", "0.00072;" and "(98.4" are numbers; "14'" and "pass2" are none.
std::optional<double> number_of(std::string word) {
  std::erase_if(word, [](char c) { return std::string_view(",;()").find(c) != std::string_view::npos; });
  char* end = nullptr;
  const double number = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0') return std::nullopt;
  return number;
}

bool word_shows(const std::string& pattern, const std::string& word) {
  const size_t gap = pattern.find("...");
  if (gap != std::string::npos) {
    const std::string head = pattern.substr(0, gap), tail = pattern.substr(gap + 3);
    return word.size() >= head.size() + tail.size() && word.starts_with(head) && word.ends_with(tail);
  }
  const std::optional<double> want = number_of(pattern), have = number_of(word);
  if (!want || !have) return pattern == word;
  const double size = std::max(std::abs(*want), std::abs(*have));
  return std::abs(*want - *have) <= (size < 1e-3 ? kOfSmall : kTolerance) * size;
}

bool line_shows(const Words& pattern, const Words& line) { return std::ranges::equal(pattern, line, word_shows); }

}  // namespace

bool shows(std::string_view pattern, std::string_view output) {
  const std::vector<Words> want = lines_of(pattern), have = lines_of(output);
  // reachable[i]: the pattern's lines so far can have used up the first i lines.
  std::vector<bool> reachable(have.size() + 1, false);
  reachable[0] = true;
  for (const Words& line : want) {
    const bool any = line == Words{"..."};
    std::vector<bool> next(have.size() + 1, false);
    for (size_t i = 0; i <= have.size(); ++i)
      next[i] =
          any ? reachable[i] || (i > 0 && next[i - 1]) : i > 0 && reachable[i - 1] && line_shows(line, have[i - 1]);
    reachable = std::move(next);
  }
  return reachable.back();
}

}  // namespace kvcal::documents
