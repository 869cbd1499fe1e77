// Shares of counts in decimal notation, "99.9 %", without the error of binary fractions.
#pragma once

#include <cstdint>

namespace kvcal {

/// The smallest whole number that is at least n · share / 10^places, exactly: `share` stands for the shortest decimal
/// that reads back as it (99.9, whose double is above 99.9), which is what was typed as long as that had at most 15
/// digits. 99.9 % of 64,000 is decimal_share(99.9, 2, 64000) = 63936. `share` is finite and not negative.
uint64_t decimal_share(double share, int places, uint64_t n);

}  // namespace kvcal
