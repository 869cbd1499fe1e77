#include "doctor/log_reader.h"

#include <algorithm>
#include <utility>

#include "doctor/entry.h"

namespace kvcal {
namespace {

constexpr size_t kExcerptBefore = 48, kExcerptBytes = 150;

// All needles in one automaton: those of the catalog first, each with its line, then those of facts.
struct Needles {
  std::vector<const LogLine*> lines;
  std::vector<std::string_view> texts;
  LineMatcher matcher;

  Needles() : matcher(collected()) {}

 private:
  const std::vector<std::string_view>& collected() {
    for (const auto table : {vllm_lines(), vllm_load_lines(), sglang_lines(), other_lines()})
      for (const LogLine& line : table)
        for (const std::string_view needle : needles_of(line)) {
          lines.push_back(&line);
          texts.push_back(needle);
        }
    for (const FactLine& fact : fact_lines()) texts.push_back(fact.needle);
    return texts;
  }
};

const Needles& needles() {
  static const Needles all;
  return all;
}

bool applies(const LogLine& line, std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
  const std::string_view also = line.part(" & "), unless = line.part(" ! ");
  return has(also) && (unless.empty() || !has(unless));
}

}  // namespace

std::vector<std::string_view> needles_of(const LogLine& line) {
  std::vector<std::string_view> all;
  const size_t end = std::min({line.pattern.find(" & "), line.pattern.find(" ! "), line.pattern.size()});
  for (std::string_view rest = line.pattern.substr(0, end); !rest.empty();) {
    all.push_back(rest.substr(0, rest.find('|')));
    rest.remove_prefix(std::min(rest.size(), all.back().size() + 1));
  }
  return all;
}

bool is_known_line(std::string_view text) {
  const std::vector<const LogLine*>& lines = needles().lines;
  for (size_t i = 0; i < lines.size(); ++i)
    if (text.find(needles().texts[i]) != text.npos && applies(*lines[i], text)) return true;
  return false;
}

std::string excerpt(std::string_view line, size_t at) {
  if (at > line.size()) at = 0;
  const size_t begin = at > kExcerptBefore && line.size() > kExcerptBytes ? at - kExcerptBefore : 0;
  const std::string_view part = line.substr(begin, kExcerptBytes);
  return (begin > 0 ? "..." : "") + std::string(part) + (begin + part.size() < line.size() ? "..." : "");
}

int rank_of(std::string_view line) {
  for (size_t at = line.find("TP"); at != std::string_view::npos && at < 100; at = line.find("TP", at + 1)) {
    const char before = at == 0 ? '\0' : line[at - 1];
    if (before != '_' && before != ' ' && before != '[') continue;
    int rank = -1;
    for (size_t i = at + 2; i < line.size() && i < at + 5 && line[i] >= '0' && line[i] <= '9'; ++i)
      rank = std::max(rank, 0) * 10 + (line[i] - '0');
    if (rank >= 0) return rank;
  }
  return -1;
}

LogReader::LogReader(std::string file, Facts& facts)
    : file_(std::move(file)),
      facts_(facts),
      scanner_(needles().matcher, [this](const FoundLine& line) { take(line); }),
      others_started_(!facts.has_log || facts.has_started) {
  facts_.has_log = true;
  facts_.has_started = false;
}

void LogReader::take(const FoundLine& line) {
  for (const uint16_t needle : line.needles) {
    if (needle < needles().lines.size()) {
      take_line(line, needle);
      continue;
    }
    const size_t at = line.text.find(needles().texts[needle]);
    if (at == std::string_view::npos) continue;  // broken within a word: known to be there, not to be taken apart
    const FactLine& fact = fact_lines()[needle - needles().lines.size()];
    fact.take(facts_, {fact, line.text, at, {file_, line.number, excerpt(line.text, at)}});
  }
}

void LogReader::take_line(const FoundLine& line, size_t index) {
  const LogLine& known = *needles().lines[index];
  if (!applies(known, line.text)) return;
  Sign& sign = facts_.lines[known.entry.id];
  if (sign.entry == nullptr) sign.entry = &known.entry;
  if (!known.cache.empty()) facts_.take_logged_type(known.cache);
  if (sign.evidence.empty() || sign.evidence.back().file != file_)
    sign.evidence.push_back({file_, line.number, excerpt(line.text, line.text.find(needles().texts[index])), 0});
  ++sign.evidence.back().count;
  if (const int rank = rank_of(line.text); rank >= 0) {
    std::vector<bool>& ranks = ranks_[known.entry.id];
    if (ranks.size() <= static_cast<size_t>(rank)) ranks.resize(static_cast<size_t>(rank) + 1);
    ranks[static_cast<size_t>(rank)] = true;
  }
}

void LogReader::finish() {
  scanner_.finish();
  facts_.has_started &= others_started_;
  for (const auto& [id, ranks] : ranks_)
    facts_.lines[id].evidence.back().n_ranks = static_cast<size_t>(std::count(ranks.begin(), ranks.end(), true));
}

}  // namespace kvcal
