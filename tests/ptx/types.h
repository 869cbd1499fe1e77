// Types of PTX registers and instructions, and how their values lie in a warp.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace ptx {

inline constexpr unsigned kWarp = 32;
using Lanes = uint32_t;  // a bit for each lane of a warp
inline constexpr Lanes kAllLanes = ~Lanes{0};

/// Text that is not PTX as this interpreter knows it, or a thread that does what the PTX ISA leaves undefined.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Kind : uint8_t { Predicate, Bits, Unsigned, Signed, Float };

struct Type {
  Kind kind = Kind::Bits;
  uint8_t bits = 0;  // 8 for predicates, which take a byte of a warp's registers

  unsigned bytes() const { return bits / 8U; }
  bool operator==(const Type&) const = default;
};

/// Of "u32"; nothing for another word.
std::optional<Type> type_named(std::string_view name);
std::string name_of(Type type);

/// May an instruction of that type take a register of this one? The table "Operand Size Exceeding Instruction-Type
/// Size" is for `wider` operands: those of ld, st and cvt.
bool fits(Type register_type, Type instruction_type, bool wider);

template <class T>
constexpr Type type_of() {
  constexpr uint8_t kBits = sizeof(T) * 8;
  if constexpr (std::is_same_v<T, bool>)
    return {Kind::Predicate, kBits};
  else if constexpr (std::is_floating_point_v<T>)
    return {Kind::Float, kBits};
  else if constexpr (std::is_signed_v<T>)
    return {Kind::Signed, kBits};
  else
    return {Kind::Unsigned, kBits};
}

template <class T>
constexpr Type bits_of() {
  return {Kind::Bits, sizeof(T) * 8};
}

enum class Space : uint8_t { Generic, Global, Shared, Local, Parameter };

}  // namespace ptx
