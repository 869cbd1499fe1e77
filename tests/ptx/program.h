// A kernel as the interpreter runs it: every instruction resolved to a function and to places of a warp's registers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ptx/module.h"
#include "ptx/types.h"

namespace ptx {

class Warp;
struct Instruction;

/// Does the instruction for these lanes, which are not none.
using Execute = void (*)(Warp& warp, const Instruction& instruction, Lanes lanes);

/// Where a register's 32 values lie in the bytes of a warp's registers, and the register's number.
struct Slot {
  uint32_t at = 0, index = 0;
};

/// [base + offset]; base has 64 bits, or 32 if it is not `wide`.
struct Address {
  Space space = Space::Generic;
  Slot base;
  bool wide = true;
  int64_t offset = 0;
};

/// Which lanes must come to an instruction together, and what it does to their way.
enum class Control : uint8_t {
  Plain,
  Branch,   // to `target`
  Return,   // the lanes end
  Barrier,  // all threads of the block
  Named,    // the lanes of the mask in the last of `from`
  Whole     // the whole warp (.aligned)
};

inline constexpr size_t kMostTo = 5, kMostFrom = 10, kMostAddresses = 2;

struct Instruction {
  Execute execute = nullptr;
  Control control = Control::Plain;
  bool guarded = false, negated = false;  // @%p, @!%p
  bool uniform = false;                   // .uni: the lanes that are there go the same way
  bool stores_undefined = false;          // `from` may be registers that nothing was written to
  uint8_t n_to = 0, n_from = 0, n_addresses = 0;
  std::array<uint8_t, kMostFrom> register_bytes{};  // where registers may be wider than the instruction's type
  Slot guard;
  std::array<Slot, kMostTo> to;
  std::array<Slot, kMostFrom> from;
  std::array<Address, kMostAddresses> address;
  uint32_t target = 0;
  int line = 0;
  std::string_view name;  // in the text of the module
};

/// A register that has its value before the first instruction.
struct Constant {
  Slot slot;
  Type type;
  uint64_t bits = 0;
};

enum class Special : uint8_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ
};
inline constexpr size_t kSpecials = 12;

struct SpecialRegister {
  Slot slot;
  Special which;
};

struct Placed {
  Variable variable;
  size_t at = 0;
};

/// Shared memory begins here, so that an address of zero is none. Variables have a gap between them.
/// What a launch asks for comes after them: they may have 48 KiB.
inline constexpr size_t kSharedBegin = 1024, kSharedGap = 16, kDynamicBegin = size_t{64} << 10;

struct Program {
  std::string name;
  std::vector<Instruction> code;
  size_t register_bytes = 0, n_registers = 0;
  std::vector<Constant> constants;
  std::vector<SpecialRegister> specials;
  std::vector<Placed> parameters;
  size_t parameter_bytes = 0;
  std::vector<Placed> shared;         // of a known size
  size_t dynamic_at = kDynamicBegin;  // what a launch asks for
  size_t local_bytes = 0;             // of a thread
  std::array<unsigned, 3> most_threads{};
};

/// Generic addresses of other spaces than global, whose addresses are those of the host.
inline constexpr uint64_t kWindow = uint64_t{1} << 56;
constexpr uint64_t window_of(Space space) {
  switch (space) {
    case Space::Shared:
      return kWindow;
    case Space::Local:
      return 2 * kWindow;
    case Space::Parameter:
      return 3 * kWindow;
    default:
      return 0;
  }
}

}  // namespace ptx
