// What was done to memory last.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "emulator/race_clock.h"

namespace emulator::race {

/// Of many accesses that nothing orders, two with which a later one of any thread conflicts if it conflicts with one of
/// them all: those of different blocks, or of different warps, since no thread is in both. Within a warp that is so as
/// long as
/// __syncwarp() names all lanes; otherwise a third lane may be forgotten.
class Accesses {
 public:
  void add(const Stamp& now, const Clock& clock) {
    for (Stamp& s : stamps_)
      if (clock.ordered(s, now.thread)) {  // what is ordered after `now` is ordered after it too
        s = now;
        return;
      }
    const bool first_here = clock.of_this_block(stamps_[0]), second_here = clock.of_this_block(stamps_[1]);
    const bool one_warp = stamps_[0].thread / Clock::kWarp == stamps_[1].thread / Clock::kWarp;
    if (first_here == second_here && (!first_here || one_warp)) stamps_[1] = now;
  }
  /// One that is not ordered before what the thread does now; null: all are.
  const Stamp* conflict(size_t thread, const Clock& clock) const {
    for (const Stamp& s : stamps_)
      if (!clock.ordered(s, thread)) return &s;
    return nullptr;
  }

 private:
  std::array<Stamp, 2> stamps_;
};

struct Cell {
  uint32_t since = 0;  // when its memory began: with the block if it is shared, else with the launch
  Stamp written;
  Accesses reads, atomics;  // since it was written
  bool arriving = false;    // an asynchronous copy that nobody has waited for, begun when `written` says
};

/// Cells of four bytes, on pages where something smaller was touched of two or one: most of what kernels touch are
/// floats.
class Shadow {
 public:
  /// f(cell, its address) for those of the range, which were emptied if last used before `since`.
  template <class F>
  void each_cell(uintptr_t begin, size_t bytes, uint32_t since, F&& f) {
    const size_t grain = grain_of(begin | bytes);
    for (uintptr_t at = begin; at < begin + bytes;) {
      Page& page = page_of(at);
      if (page.grain > grain) page.refine(grain);
      const uintptr_t end = std::min(begin + bytes, (at / kPageBytes + 1) * kPageBytes);
      for (; at < end; at += page.grain) {
        Cell& cell = page.cells[at % kPageBytes / page.grain];
        if (cell.since != since) cell = {since, {}, {}, {}, false};
        f(cell, at);
      }
    }
  }
  /// Between launches, whose order needs no cells.
  void keep_small() {
    if (pages_.size() <= kMostPages) return;
    recent_.assign(recent_.size(), {});
    pages_.clear();
  }

 private:
  static constexpr size_t kMostGrain = 4, kPageBytes = 256, kMostPages = 65536;
  struct Page {
    size_t grain = kMostGrain;
    std::vector<Cell> cells = std::vector<Cell>(kPageBytes / kMostGrain);

    void refine(size_t to) {
      std::vector<Cell> finer(kPageBytes / to);
      for (size_t i = 0; i < finer.size(); ++i) finer[i] = cells[i * to / grain];
      grain = to;
      cells = std::move(finer);
    }
  };
  struct Recent {
    uintptr_t number = 0;
    Page* page = nullptr;
  };

  static size_t grain_of(uintptr_t bits) {
    const uintptr_t least = (bits | kMostGrain) & (~(bits | kMostGrain) + 1);
    return static_cast<size_t>(least);
  }
  Page& page_of(uintptr_t address) {
    const uintptr_t number = address / kPageBytes;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.number != number || !recent.page) recent = {number, &pages_[number]};
    return *recent.page;
  }

  std::unordered_map<uintptr_t, Page> pages_;
  std::vector<Recent> recent_ = std::vector<Recent>(4096);
};

}  // namespace emulator::race
