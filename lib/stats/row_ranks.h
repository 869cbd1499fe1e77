// One number for every planned row, ascending in the order of Provenance: what a device compares in place of tuples.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/tap_tables.h"
#include "stats/observer.h"

namespace kvcal {

class RowRanks {
 public:
  /// Throws Error when there are more rows than numbers. The plan must outlive the ranks.
  explicit RowRanks(const ObservationPlan& plan);

  /// The rows of a segment that is part of a planned one, in pieces of one kind of token each.
  std::vector<TapRows> describe(const Segment& segment) const;

  /// What a cell of these rows is: pass and prompt, and one kind of token where these are told apart.
  struct Cell {
    int pass = 0;
    int64_t prompt = 0;
    uint8_t kind = 0;
  };
  const std::vector<Cell>& cells() const { return cells_; }

  const ObservationPlan& plan() const { return plan_; }

  /// The row of a rank: all of a Provenance but head and channel.
  Provenance row_of(int64_t rank) const;

 private:
  /// The tokens of one prompt in one pass. A token may come several times, at positions that differ by constants: each
  /// time has a number, tokens first, then positions.
  struct Group {
    int pass = 0;
    int64_t prompt = 0, first_rank = 0, first_token = 0, end_token = 0;
    std::vector<int64_t> shifts;  // position - token, ascending
    int64_t first_cell = 0;
    std::vector<uint8_t> kinds;  // of its cells, ascending
    int64_t step() const { return static_cast<int64_t>(shifts.size()); }
    void add(const Segment& segment);
  };

  void add_cells(Group& group);

  const ObservationPlan& plan_;
  std::vector<Group> groups_;  // by pass and prompt
  std::vector<Cell> cells_;
};

}  // namespace kvcal
