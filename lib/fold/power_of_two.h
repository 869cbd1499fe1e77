// Powers of two in stored numbers: exactly, or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace kvcal {

/// What may become of a normal number that a power of two makes subnormal: it is refused, since hardware may flush it,
/// or kept where its bits allow that, to take an earlier fold back.
enum class Subnormals : uint8_t { Refuse, KeepExact };

/// Whether numbers of this type can take a power of two: F64, F32, BF16, F16, F8_E4M3, F8_E5M2; U8 and F8_E8M0 are
/// exponents of a power of two themselves.
bool takes_powers(DType type);

/// Multiplies `n` numbers at `numbers` by 2^exponent in place. Zeros, infinities and NaNs stay. False, and the numbers
/// are left in an unknown state, when one of them cannot be represented: too large, a normal one that becomes
/// subnormal, a subnormal one that loses a bit.
bool multiply(DType type, std::byte* numbers, size_t n, int exponent, Subnormals subnormals = Subnormals::Refuse);

/// The same for gains w that multiply by 1 + w: 1 + w is multiplied. False also where the new w is no BF16 number,
/// since servers may keep it as one. Of F32 and BF16.
bool multiply_one_plus(DType type, std::byte* numbers, size_t n, int exponent);

}  // namespace kvcal
