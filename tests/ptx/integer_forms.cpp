// Arithmetic of integers, after the chapter "Integer Arithmetic Instructions" of the PTX ISA.
#include <bit>
#include <limits>

#include "ptx/forms.h"

namespace ptx {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

/// Twice as wide.
template <class T>
struct WideOf;
template <>
struct WideOf<int16_t> {
  using type = int32_t;
};
template <>
struct WideOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct WideOf<int32_t> {
  using type = int64_t;
};
template <>
struct WideOf<uint32_t> {
  using type = uint64_t;
};
template <>
struct WideOf<int64_t> {
  using type = __int128;
};
template <>
struct WideOf<uint64_t> {
  using type = unsigned __int128;
};
template <class T>
using Wide = typename WideOf<T>::type;

// Sums and products are those of unsigned numbers: the ISA has no overflow.
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Unsigned<T>(a) + Unsigned<T>(b));
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(Unsigned<T>(a) - Unsigned<T>(b));
  }
};
struct Low {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(uint64_t(a) * uint64_t(b));
  }
};
struct High {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>((Wide<T>(a) * Wide<T>(b)) >> (8 * sizeof(T)));
  }
};
struct Widened {
  template <class T>
  Wide<T> operator()(T a, T b) const {
    return Wide<T>(a) * Wide<T>(b);
  }
};
struct LowAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add{}(Low{}(a, b), c);
  }
};
struct WidenedAdd {
  template <class T>
  Wide<T> operator()(T a, T b, Wide<T> c) const {
    return Add{}(Widened{}(a, b), c);
  }
};
/// The ISA leaves both unspecified where there is no quotient.
template <class T>
void require_quotient(T a, T b) {
  if (b == 0) throw Error("division of " + std::to_string(a) + " by zero");
  if (std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1))
    throw Error("the quotient of " + std::to_string(a) + " and -1 has no room");
}
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    require_quotient(a, b);
    return static_cast<T>(a / b);
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    require_quotient(a, b);
    return static_cast<T>(a % b);
  }
};
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return Subtract{}(T{0}, a);
  }
};
struct Magnitude {
  template <class T>
  T operator()(T a) const {
    return a < 0 ? Negate{}(a) : a;
  }
};
struct LeadingZeros {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Ones {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};

template <class T>
void add_for(Forms& forms, const std::string& type) {
  forms["add." + type] = each_lane<Add, T, T, T>();
  forms["sub." + type] = each_lane<Subtract, T, T, T>();
  forms["mul.lo." + type] = each_lane<Low, T, T, T>();
  forms["mul.hi." + type] = each_lane<High, T, T, T>();
  forms["mad.lo." + type] = each_lane<LowAdd, T, T, T, T>();
  forms["div." + type] = each_lane<Divide, T, T, T>();
  forms["rem." + type] = each_lane<Remainder, T, T, T>();
  forms["min." + type] = each_lane<Least, T, T, T>();
  forms["max." + type] = each_lane<Most, T, T, T>();
  if constexpr (sizeof(T) < 8) {
    forms["mul.wide." + type] = each_lane<Widened, Wide<T>, T, T>();
    forms["mad.wide." + type] = each_lane<WidenedAdd, Wide<T>, T, T, Wide<T>>();
  }
  if constexpr (std::is_signed_v<T>) {
    forms["neg." + type] = each_lane<Negate, T, T>();
    forms["abs." + type] = each_lane<Magnitude, T, T>();
  }
}

}  // namespace

void add_integer_forms(Forms& forms) {
  add_for<uint16_t>(forms, "u16");
  add_for<uint32_t>(forms, "u32");
  add_for<uint64_t>(forms, "u64");
  add_for<int16_t>(forms, "s16");
  add_for<int32_t>(forms, "s32");
  add_for<int64_t>(forms, "s64");
  forms["clz.b32"] = each_lane_of_bits<LeadingZeros, uint32_t, uint32_t>();
  forms["clz.b64"] = each_lane_of_bits<LeadingZeros, uint32_t, uint64_t>();
  forms["popc.b32"] = each_lane_of_bits<Ones, uint32_t, uint32_t>();
  forms["popc.b64"] = each_lane_of_bits<Ones, uint32_t, uint64_t>();
}

}  // namespace ptx
