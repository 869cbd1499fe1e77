#include "ptx/banks.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ptx {
namespace {

constexpr uint64_t kBanks = 32, kWord = 4;  // bytes

/// The different words that are wanted of each bank.
class Wanted {
 public:
  void add(uint64_t word) {
    const uint64_t bank = word % kBanks;
    const auto is_there = [&](uint64_t other) { return other == word; };
    if (n_[bank] > 0 && (first_[bank] == word || std::any_of(more_.begin(), more_.end(), is_there))) return;
    if (n_[bank]++ == 0)
      first_[bank] = word;
    else
      more_.push_back(word);
  }
  uint64_t most() const { return *std::max_element(n_.begin(), n_.end()); }

 private:
  std::array<uint64_t, kBanks> first_{}, n_{};
  std::vector<uint64_t> more_;
};

}  // namespace

BankUse BankRequest::take() {
  BankUse use;
  const Lanes lanes = std::exchange(lanes_, 0);
  if (lanes == 0) return use;
  const auto together = static_cast<unsigned>(std::min<uint64_t>(kWarp, kBanks * kWord / bytes_));
  for (unsigned first = 0; first < kWarp; first += together) {
    Wanted wanted;
    for (unsigned lane = first; lane < first + together; ++lane)
      for (uint64_t at = 0; lanes >> lane & 1 && at < bytes_; at += kWord) wanted.add((addresses_[lane] + at) / kWord);
    use.taken += wanted.most();
    use.needed += wanted.most() > 0;
  }
  return use;
}

}  // namespace ptx
