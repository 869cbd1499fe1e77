// Logic, shifts, fields of bits and selections.
#include "ptx/forms.h"

namespace ptx {
namespace {

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct ExclusiveOr {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
  bool operator()(bool a) const { return !a; }
};

// Shifts by more than the bits there are count as a shift by all of them.
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t n) const {
    return n >= 8 * sizeof(T) ? T{0} : static_cast<T>(uint64_t{a} << n);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t n) const {
    if (n >= 8 * sizeof(T)) return a < 0 ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> n);
  }
};

struct Select {
  template <class T>
  T operator()(T a, T b, bool first) const {
    return first ? a : b;
  }
};

/// The low bits of a put over those of b from `from` on, of which n.
struct Insert {
  template <class T>
  T operator()(T a, T b, uint32_t from, uint32_t n) const {
    constexpr uint32_t kBits = 8 * sizeof(T);
    from &= 0xFF;
    n &= 0xFF;
    T result = b;
    for (uint32_t k = 0; k < n && from + k < kBits; ++k) {
      const T bit = T{1} << (from + k);
      result = (a >> k & 1) != 0 ? result | bit : result & ~bit;
    }
    return result;
  }
};

/// Bytes of {b, a} in the order that the four fields of c say; bit 3 of a field spreads the byte's sign instead.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t bytes = uint64_t{b} << 32 | a;
    uint32_t result = 0;
    for (unsigned k = 0; k < 4; ++k) {
      const uint32_t field = c >> (4 * k) & 0xF;
      auto byte = static_cast<uint8_t>(bytes >> (8 * (field & 7)));
      if (field & 8) byte = byte & 0x80 ? 0xFF : 0;
      result |= uint32_t{byte} << (8 * k);
    }
    return result;
  }
};

template <class T>
void add_for(Forms& forms, const std::string& bits) {
  using Signed = std::make_signed_t<T>;
  forms["and.b" + bits] = each_lane_of_bits<And, T, T, T>();
  forms["or.b" + bits] = each_lane_of_bits<Or, T, T, T>();
  forms["xor.b" + bits] = each_lane_of_bits<ExclusiveOr, T, T, T>();
  forms["not.b" + bits] = each_lane_of_bits<Not, T, T>();
  const Type type = bits_of<T>(), amount = type_of<uint32_t>();
  forms["shl.b" + bits] = {&EachLane<ShiftLeft, T, T, uint32_t>::execute, {type}, {type, amount}};
  for (const char* kind : {"b", "u"})
    forms["shr." + (kind + bits)] = {&EachLane<ShiftRight, T, T, uint32_t>::execute, {type}, {type, amount}};
  forms["shr.s" + bits] = {&EachLane<ShiftRight, Signed, Signed, uint32_t>::execute, {type}, {type, amount}};
  for (const char* kind : {"b", "u", "s"})
    forms["selp." + (kind + bits)] = {&EachLane<Select, T, T, T, bool>::execute, {type}, {type, type, type_of<bool>()}};
}

}  // namespace

void add_logic_forms(Forms& forms) {
  add_for<uint16_t>(forms, "16");
  add_for<uint32_t>(forms, "32");
  add_for<uint64_t>(forms, "64");
  forms["and.pred"] = each_lane<And, bool, bool, bool>();
  forms["or.pred"] = each_lane<Or, bool, bool, bool>();
  forms["xor.pred"] = each_lane<ExclusiveOr, bool, bool, bool>();
  forms["not.pred"] = each_lane<Not, bool, bool>();
  forms["selp.f32"] = each_lane<Select, float, float, float, bool>();
  forms["selp.f64"] = each_lane<Select, double, double, double, bool>();
  const Type amount = type_of<uint32_t>();
  forms["bfi.b32"] = {&EachLane<Insert, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>::execute,
                      {bits_of<uint32_t>()},
                      {bits_of<uint32_t>(), bits_of<uint32_t>(), amount, amount}};
  forms["bfi.b64"] = {&EachLane<Insert, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>::execute,
                      {bits_of<uint64_t>()},
                      {bits_of<uint64_t>(), bits_of<uint64_t>(), amount, amount}};
  forms["prmt.b32"] = each_lane_of_bits<Permute, uint32_t, uint32_t, uint32_t, uint32_t>();
}

}  // namespace ptx
