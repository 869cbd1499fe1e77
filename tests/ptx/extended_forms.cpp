// "Extended-Precision Integer Arithmetic Instructions": the condition code is a register of each lane that holds 0
// or 1.
#include "ptx/forms.h"

namespace ptx {
namespace {

/// F()(a, b, c, carry) is a sum of 64 bits, or a difference whose borrow is bit 32; operands that an instruction does
/// not have are zero.
template <class F, unsigned kOperands, bool kCarryIn, bool kCarryOut>
void execute(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    std::array<uint32_t, 3> from{};
    for (unsigned k = 0; k < kOperands; ++k) from[k] = warp.values<uint32_t>(i.from[k])[lane];
    const uint32_t carry = kCarryIn ? warp.values<uint32_t>(i.from[kOperands])[lane] : 0;
    const uint64_t sum = F{}(from[0], from[1], from[2], carry);
    warp.values<uint32_t>(i.to[0])[lane] = static_cast<uint32_t>(sum);
    if (kCarryOut) warp.values<uint32_t>(i.to[1])[lane] = static_cast<uint32_t>(sum >> 32 & 1);
  });
}

struct Sum {
  uint64_t operator()(uint64_t a, uint64_t b, uint64_t, uint64_t carry) const { return a + b + carry; }
};
struct Difference {
  uint64_t operator()(uint64_t a, uint64_t b, uint64_t, uint64_t borrow) const { return a - b - borrow; }
};
struct LowSum {
  uint64_t operator()(uint64_t a, uint64_t b, uint64_t c, uint64_t carry) const {
    return (a * b & 0xFFFFFFFF) + c + carry;
  }
};
struct HighSum {
  uint64_t operator()(uint64_t a, uint64_t b, uint64_t c, uint64_t carry) const { return (a * b >> 32) + c + carry; }
};

template <class F, unsigned kOperands, bool kCarryIn, bool kCarryOut>
Form form() {
  const std::vector<Type> from(kOperands, type_of<uint32_t>());
  Form f{&execute<F, kOperands, kCarryIn, kCarryOut>, {type_of<uint32_t>()}, from};
  f.carry_in = kCarryIn;
  f.carry_out = kCarryOut;
  return f;
}

}  // namespace

void add_extended_forms(Forms& forms) {
  for (const std::string type : {"u32", "s32"}) {
    forms["add.cc." + type] = form<Sum, 2, false, true>();
    forms["addc." + type] = form<Sum, 2, true, false>();
    forms["addc.cc." + type] = form<Sum, 2, true, true>();
    forms["sub.cc." + type] = form<Difference, 2, false, true>();
    forms["subc." + type] = form<Difference, 2, true, false>();
    forms["subc.cc." + type] = form<Difference, 2, true, true>();
    forms["mad.lo.cc." + type] = form<LowSum, 3, false, true>();
    forms["madc.lo." + type] = form<LowSum, 3, true, false>();
    forms["madc.lo.cc." + type] = form<LowSum, 3, true, true>();
  }
  // Of signed numbers the upper half is another one.
  forms["mad.hi.cc.u32"] = form<HighSum, 3, false, true>();
  forms["madc.hi.u32"] = form<HighSum, 3, true, false>();
  forms["madc.hi.cc.u32"] = form<HighSum, 3, true, true>();
}

}  // namespace ptx
