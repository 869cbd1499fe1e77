// What is ordered before what, among the threads of a launch.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator::race {

/// When, by whom and where in the code. Moments count the beginnings of blocks, barriers and __syncwarp()s of all
/// launches, so that stamps of earlier blocks and launches are told by their age and need not be cleared. 0: never.
struct Stamp {
  uint32_t moment = 0;
  uint32_t site = 0;
  uint16_t thread = 0;
};

class Clock {
 public:
  static constexpr size_t kWarp = 32;

  void begin_launch() {
    launch_ = moment_ + 1;
    blocks_.clear();
  }
  void begin_block(size_t n_threads) {
    block_ = interval_ = ++moment_;
    blocks_.push_back(block_);
    now_.assign(n_threads, moment_);
    seen_.assign((n_threads + kWarp - 1) / kWarp * kWarp, {});
  }
  void barrier() {
    interval_ = ++moment_;
    std::fill(now_.begin(), now_.end(), moment_);
  }
  /// Each of the lanes has seen from now on what any of them had seen or done.
  void sync_warp(size_t first, unsigned lanes) {
    ++moment_;
    std::array<uint32_t, kWarp> all{};
    for (size_t lane = 0; lane < kWarp; ++lane)
      if (lanes >> lane & 1)
        for (size_t other = 0; other < kWarp; ++other) all[other] = std::max(all[other], seen_[first + lane][other]);
    for (size_t lane = 0; lane < kWarp; ++lane)
      if (lanes >> lane & 1) all[lane] = moment_;
    for (size_t lane = 0; lane < kWarp; ++lane)
      if (lanes >> lane & 1) {
        seen_[first + lane] = all;
        now_[first + lane] = moment_;
      }
  }

  Stamp stamp(size_t thread, uint32_t site) const { return {now_[thread], site, static_cast<uint16_t>(thread)}; }

  uint32_t launch() const { return launch_; }
  uint32_t block() const { return block_; }
  bool of_this_block(const Stamp& s) const { return s.moment >= block_; }

  /// Whether what was done then comes before what `thread` of the running block does now.
  bool ordered(const Stamp& s, size_t thread) const {
    if (!of_this_block(s)) return s.moment < launch_;
    if (s.moment < interval_ || s.thread == thread) return true;
    return s.thread / kWarp == thread / kWarp && s.moment < seen_[thread][s.thread % kWarp];
  }

  size_t block_of(const Stamp& s) const {
    return static_cast<size_t>(std::upper_bound(blocks_.begin(), blocks_.end(), s.moment) - blocks_.begin()) - 1;
  }

 private:
  uint32_t moment_ = 0;
  uint32_t launch_ = 0, block_ = 0, interval_ = 0;  // when they began; interval: since the last barrier
  std::vector<uint32_t> blocks_;                    // when each of the launch began
  std::vector<uint32_t> now_;                       // [threads]
  std::vector<std::array<uint32_t, kWarp>> seen_;   // [threads][lane of its warp]: what came before this moment
};

}  // namespace emulator::race
