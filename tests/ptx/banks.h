// Shared memory lies in 32 banks, which give 4 bytes each at a time. Lanes that want different words of one bank wait
// for each other; those that want the same word do not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "ptx/types.h"

namespace ptx {

/// How often the banks had to give something: what was needed by the number of bytes, and what it took.
struct BankUse {
  uint64_t needed = 0, taken = 0;

  BankUse& operator+=(const BankUse& other) {
    needed += other.needed;
    taken += other.taken;
    return *this;
  }
};

/// What the lanes of a warp want by one instruction: at most 128 bytes pass at a time, of neighboring lanes.
class BankRequest {
 public:
  void add(unsigned lane, uint64_t address, size_t bytes) {
    addresses_[lane] = address;
    bytes_ = bytes;
    lanes_ |= Lanes{1} << lane;
  }

  /// Of the request, which is over then.
  BankUse take();

 private:
  std::array<uint64_t, kWarp> addresses_;
  size_t bytes_ = 0;
  Lanes lanes_ = 0;
};

}  // namespace ptx
