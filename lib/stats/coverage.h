// Which planned tokens a site has seen: a hook that misses data is the worst fault a calibrator could have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stats/observer.h"

namespace kvcal {

/// What an MTP layer sees of a plan: all but the last token of each sequence, behind which there is none to read.
ObservationPlan mtp_plan(const ObservationPlan& plan);

/// Throws Error unless each planned token has a kind that exists, or none has one.
void check_kinds(const ObservationPlan& plan);

/// The plan, sorted, with a number for every token.
class PlannedTokens {
 public:
  /// Throws Error when pieces overlap or name passes, prompts or tokens that cannot be.
  explicit PlannedTokens(const ObservationPlan& plan);

  int64_t n_tokens() const { return n_tokens_; }

  /// Number of the segment's first token; the rest follow. Throws Error when the segment is not part of a planned one.
  int64_t number_of(const Segment& segment) const;

  /// "token 5 of prompt 'x' (pass 2, position 17)" for a token's number.
  std::string describe(int64_t number) const;

 private:
  struct Piece {
    Segment segment;
    int64_t number;  // of its first token
  };
  const ObservationPlan& plan_;
  std::vector<Piece> pieces_;  // by sequence and position
  int64_t n_tokens_ = 0;
};

/// The tokens that one site has seen.
class Coverage {
 public:
  explicit Coverage(const PlannedTokens& planned);

  void add(const Batch& batch);

  /// What is missing or came twice, or "" when every planned token came once.
  std::string fault() const;

  /// Begins anew: the same tokens come again, of a layer that shares the cache.
  void reset();

 private:
  const PlannedTokens& planned_;
  std::vector<bool> seen_;  // by token number
  int64_t n_rows_ = 0;
  std::optional<int64_t> repeated_;  // smallest number of a token that came again
};

}  // namespace kvcal
