// cvt
#include <bit>

#include "ptx/float_values.h"
#include "ptx/forms.h"

namespace ptx {
namespace {

template <class D>
struct To {
  template <class S>
  D operator()(S a) const {
    return static_cast<D>(a);
  }
};

/// Of a wider register it takes the low bits.
template <class D, class S>
void convert_integer(Warp& warp, const Instruction& i, Lanes lanes) {
  const size_t stride = i.register_bytes[0];
  const std::byte* const from = warp.values<std::byte>(i.from[0]);
  for_each_lane(lanes, [&](unsigned lane) {
    S value;
    std::memcpy(&value, from + lane * stride, sizeof(value));
    warp.values<D>(i.to[0])[lane] = static_cast<D>(value);
  });
}
template <class D, class S>
void add_integers(Forms& forms, const std::string& name) {
  Form form{&convert_integer<D, S>, {type_of<D>()}, {type_of<S>()}};
  form.wide_from = true;
  forms[name] = form;
}

// .rni, .rzi, .rmi, .rpi: to an integer.
struct Nearest {
  template <class T>
  T operator()(T a) const {
    return std::nearbyint(a);
  }
};
struct TowardZero {
  template <class T>
  T operator()(T a) const {
    return std::trunc(a);
  }
};
struct Down {
  template <class T>
  T operator()(T a) const {
    return std::floor(a);
  }
};
struct Up {
  template <class T>
  T operator()(T a) const {
    return std::ceil(a);
  }
};

/// What is beyond the integer's range becomes its end; NaN becomes 0, from f64 to 64 bits the highest bit alone.
template <class R, class D>
struct RoundedTo {
  template <class S>
  D operator()(S a) const {
    using Limits = std::numeric_limits<D>;
    if (a != a) return sizeof(S) == 8 && sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << 63) : D{0};
    const double x = static_cast<double>(R{}(a));
    if (x >= std::ldexp(1.0, Limits::digits)) return Limits::max();
    if (x <= static_cast<double>(Limits::min())) return Limits::min();
    return static_cast<D>(x);
  }
};
template <class R>
struct RoundedInPlace {
  template <class T>
  T operator()(T a) const {
    return canonical(R{}(a));
  }
};

struct Narrowed {
  float operator()(double a) const { return canonical(static_cast<float>(a)); }
};
/// .sat: clamped to [0, 1]; NaN becomes +0.
struct Saturated {
  float operator()(float a) const { return a > 0.0F ? std::fmin(a, 1.0F) : 0.0F; }
};

/// The upper half of an f32, to the nearest, ties to even.
struct ToBf16 {
  uint16_t operator()(float a) const {
    if (a != a) return 0x7FFF;
    const auto bits = std::bit_cast<uint32_t>(a);
    const uint32_t lower = bits & 0xFFFF, upper = bits >> 16;
    const bool away = lower > 0x8000 || (lower == 0x8000 && upper % 2 == 1);
    return static_cast<uint16_t>(upper + away);
  }
};
/// The first operand becomes the upper half.
struct ToTwoBf16 {
  uint32_t operator()(float a, float b) const { return uint32_t{ToBf16{}(a)} << 16 | ToBf16{}(b); }
};
struct FromBf16 {
  float operator()(uint16_t a) const { return canonical(std::bit_cast<float>(uint32_t{a} << 16)); }
};

template <class D>
void add_to_integer(Forms& forms, const std::string& to) {
  add_integers<D, uint8_t>(forms, "cvt." + to + ".u8");
  add_integers<D, uint16_t>(forms, "cvt." + to + ".u16");
  add_integers<D, uint32_t>(forms, "cvt." + to + ".u32");
  add_integers<D, uint64_t>(forms, "cvt." + to + ".u64");
  add_integers<D, int8_t>(forms, "cvt." + to + ".s8");
  add_integers<D, int16_t>(forms, "cvt." + to + ".s16");
  add_integers<D, int32_t>(forms, "cvt." + to + ".s32");
  add_integers<D, int64_t>(forms, "cvt." + to + ".s64");
  forms["cvt.rni." + to + ".f32"] = each_lane<RoundedTo<Nearest, D>, D, float>();
  forms["cvt.rzi." + to + ".f32"] = each_lane<RoundedTo<TowardZero, D>, D, float>();
  forms["cvt.rmi." + to + ".f32"] = each_lane<RoundedTo<Down, D>, D, float>();
  forms["cvt.rpi." + to + ".f32"] = each_lane<RoundedTo<Up, D>, D, float>();
  forms["cvt.rni." + to + ".f64"] = each_lane<RoundedTo<Nearest, D>, D, double>();
  forms["cvt.rzi." + to + ".f64"] = each_lane<RoundedTo<TowardZero, D>, D, double>();
}

template <class S>
void add_from_integer(Forms& forms, const std::string& from) {
  forms["cvt.rn.f32." + from] = each_lane<To<float>, float, S>();
  forms["cvt.rn.f64." + from] = each_lane<To<double>, double, S>();
}

}  // namespace

void add_conversion_forms(Forms& forms) {
  add_to_integer<uint16_t>(forms, "u16");
  add_to_integer<uint32_t>(forms, "u32");
  add_to_integer<uint64_t>(forms, "u64");
  add_to_integer<int16_t>(forms, "s16");
  add_to_integer<int32_t>(forms, "s32");
  add_to_integer<int64_t>(forms, "s64");
  add_from_integer<uint16_t>(forms, "u16");
  add_from_integer<uint32_t>(forms, "u32");
  add_from_integer<uint64_t>(forms, "u64");
  add_from_integer<int16_t>(forms, "s16");
  add_from_integer<int32_t>(forms, "s32");
  add_from_integer<int64_t>(forms, "s64");
  forms["cvt.f64.f32"] = each_lane<To<double>, double, float>();
  forms["cvt.rn.f32.f64"] = each_lane<Narrowed, float, double>();
  forms["cvt.sat.f32.f32"] = each_lane<Saturated, float, float>();
  forms["cvt.rni.f32.f32"] = each_lane<RoundedInPlace<Nearest>, float, float>();
  forms["cvt.rzi.f32.f32"] = each_lane<RoundedInPlace<TowardZero>, float, float>();
  forms["cvt.rmi.f32.f32"] = each_lane<RoundedInPlace<Down>, float, float>();
  forms["cvt.rpi.f32.f32"] = each_lane<RoundedInPlace<Up>, float, float>();
  // bf16 lies in registers of bits.
  forms["cvt.rn.bf16.f32"] = {&EachLane<ToBf16, uint16_t, float>::execute, {bits_of<uint16_t>()}, {type_of<float>()}};
  forms["cvt.rn.bf16x2.f32"] = {&EachLane<ToTwoBf16, uint32_t, float, float>::execute,
                                {bits_of<uint32_t>()},
                                {type_of<float>(), type_of<float>()}};
  forms["cvt.f32.bf16"] = {&EachLane<FromBf16, float, uint16_t>::execute, {type_of<float>()}, {bits_of<uint16_t>()}};
}

}  // namespace ptx
