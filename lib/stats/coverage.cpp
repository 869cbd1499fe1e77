#include "stats/coverage.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/token_kind.h"

namespace kvcal {
namespace {

int64_t end_of(const Segment& s) { return s.first_position + s.n_tokens; }

bool before(const Segment& a, const Segment& b) {
  return std::pair(a.sequence, a.first_position) < std::pair(b.sequence, b.first_position);
}

std::string str(const Segment& s) {
  return "tokens " + std::to_string(s.prompt_offset) + " to " + std::to_string(s.prompt_offset + s.n_tokens - 1) +
         " of prompt " + std::to_string(s.prompt) + " (pass " + std::to_string(s.pass) + ", sequence " +
         std::to_string(s.sequence) + ", positions from " + std::to_string(s.first_position) + ")";
}

void check(const Segment& s, const ObservationPlan& plan) {
  if (s.pass < 1 || s.pass > plan.n_passes || s.prompt < 0 ||
      s.prompt >= static_cast<int64_t>(plan.prompt_ids.size()) || s.prompt_offset < 0 || s.first_position < 0 ||
      s.n_tokens < 1)
    fail("the plan of what to observe has " + str(s) + ", with " + std::to_string(plan.n_passes) + " passes and " +
         std::to_string(plan.prompt_ids.size()) + " prompts");
}

}  // namespace

ObservationPlan mtp_plan(const ObservationPlan& plan) {
  std::map<int64_t, std::pair<int64_t, size_t>> last;  // by sequence: position and index of its last segment
  for (size_t i = 0; i < plan.segments.size(); ++i) {
    const Segment& s = plan.segments[i];
    last[s.sequence] = std::max(last[s.sequence], {s.first_position, i});
  }
  ObservationPlan seen = {plan.n_passes, plan.prompt_ids, plan.segments};
  for (const auto& [sequence, at] : last) --seen.segments[at.second].n_tokens;
  std::erase_if(seen.segments, [](const Segment& s) { return s.n_tokens == 0; });
  return seen;
}

void check_kinds(const ObservationPlan& plan) {
  if (plan.kinds.empty()) return;
  if (plan.kinds.size() != plan.prompt_ids.size())
    fail("there are kinds of the tokens of " + std::to_string(plan.kinds.size()) + " prompts, expected " +
         std::to_string(plan.prompt_ids.size()));
  for (const Segment& s : plan.segments) {
    const std::vector<uint8_t>& kinds = plan.kinds[static_cast<size_t>(s.prompt)];
    if (s.prompt_offset + s.n_tokens > static_cast<int64_t>(kinds.size()))
      fail("prompt " + quoted(plan.prompt_ids[static_cast<size_t>(s.prompt)]) + " has kinds of " +
           std::to_string(kinds.size()) + " tokens, expected " + std::to_string(s.prompt_offset + s.n_tokens));
  }
  for (const auto& kinds : plan.kinds)
    if (std::ranges::any_of(kinds, [](uint8_t kind) { return kind >= kTokenKinds; }))
      fail("a kind of token does not exist");
}

PlannedTokens::PlannedTokens(const ObservationPlan& plan) : plan_(plan) {
  std::vector<Segment> segments = plan.segments;
  std::sort(segments.begin(), segments.end(), before);
  for (const Segment& s : segments) {
    check(s, plan);
    if (!pieces_.empty() && pieces_.back().segment.sequence == s.sequence &&
        end_of(pieces_.back().segment) > s.first_position)
      fail("the plan of what to observe has " + str(s) + " twice");
    pieces_.push_back({s, n_tokens_});
    n_tokens_ += s.n_tokens;
  }
}

int64_t PlannedTokens::number_of(const Segment& s) const {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), s,
                                [](const Segment& value, const Piece& p) { return before(value, p.segment); });
  if (piece != pieces_.begin()) {
    const Segment& p = (--piece)->segment;
    const int64_t skipped = s.first_position - p.first_position;
    if (p.sequence == s.sequence && end_of(s) <= end_of(p) && p.pass == s.pass && p.prompt == s.prompt &&
        p.prompt_offset + skipped == s.prompt_offset)
      return piece->number + skipped;
  }
  fail(str(s) + " came by, but are not planned to be measured");
}

std::string PlannedTokens::describe(int64_t number) const {
  const auto piece =
      std::upper_bound(pieces_.begin(), pieces_.end(), number, [](int64_t n, const Piece& p) { return n < p.number; }) -
      1;
  const Segment& s = piece->segment;
  const int64_t i = number - piece->number;
  return "token " + std::to_string(s.prompt_offset + i) + " of prompt " +
         quoted(plan_.prompt_ids[static_cast<size_t>(s.prompt)]) + " (pass " + std::to_string(s.pass) + ", position " +
         std::to_string(s.first_position + i) + ")";
}

Coverage::Coverage(const PlannedTokens& planned) : planned_(planned), seen_(static_cast<size_t>(planned.n_tokens())) {}

void Coverage::add(const Batch& batch) {
  for (const Segment& s : batch.segments) {
    const int64_t first = planned_.number_of(s);
    for (int64_t number = first; number < first + s.n_tokens; ++number) {
      const auto at = static_cast<size_t>(number);
      if (seen_[at] && (!repeated_ || number < *repeated_)) repeated_ = number;
      seen_[at] = true;
    }
    n_rows_ += s.n_tokens;
  }
}

void Coverage::reset() {
  std::fill(seen_.begin(), seen_.end(), false);
  n_rows_ = 0;
  repeated_.reset();
}

std::string Coverage::fault() const {
  const auto missing = std::find(seen_.begin(), seen_.end(), false);
  if (missing == seen_.end() && !repeated_) return "";
  std::string text = "saw " + std::to_string(n_rows_) + " tokens, expected " + std::to_string(planned_.n_tokens());
  if (missing != seen_.end()) text += "; " + planned_.describe(missing - seen_.begin()) + " never came";
  if (repeated_) text += "; " + planned_.describe(*repeated_) + " came more than once";
  return text;
}

}  // namespace kvcal
