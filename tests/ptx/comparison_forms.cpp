// setp
#include <bit>

#include "ptx/forms.h"

namespace ptx {
namespace {

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct AnyNan {
  template <class T>
  bool operator()(T a, T b) const {
    return a != a || b != b;
  }
};
template <class F>
struct Inverse {
  template <class T>
  bool operator()(T a, T b) const {
    return !F{}(a, b);
  }
};
/// Of ordered numbers, unlike !=.
struct Differs {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b || a > b;
  }
};

template <class T>
void add_equality(Forms& forms, const std::string& type) {
  forms["setp.eq." + type] = each_lane<Equal, bool, T, T>();
  forms["setp.ne." + type] = each_lane<Inverse<Equal>, bool, T, T>();
  if (type[0] == 'b')
    for (const char* op : {"setp.eq.", "setp.ne."}) forms[op + type].from = {bits_of<T>(), bits_of<T>()};
}

template <class T>
void add_integer(Forms& forms, const std::string& type) {
  add_equality<T>(forms, type);
  forms["setp.lt." + type] = each_lane<Less, bool, T, T>();
  forms["setp.le." + type] = each_lane<LessEqual, bool, T, T>();
  forms["setp.gt." + type] = each_lane<Greater, bool, T, T>();
  forms["setp.ge." + type] = each_lane<GreaterEqual, bool, T, T>();
}

/// The second half of the names is true of NaN.
template <class T>
void add_float(Forms& forms, const std::string& type) {
  add_integer<T>(forms, type);
  forms["setp.ne." + type] = each_lane<Differs, bool, T, T>();
  forms["setp.equ." + type] = each_lane<Inverse<Differs>, bool, T, T>();
  forms["setp.neu." + type] = each_lane<Inverse<Equal>, bool, T, T>();
  forms["setp.ltu." + type] = each_lane<Inverse<GreaterEqual>, bool, T, T>();
  forms["setp.leu." + type] = each_lane<Inverse<Greater>, bool, T, T>();
  forms["setp.gtu." + type] = each_lane<Inverse<LessEqual>, bool, T, T>();
  forms["setp.geu." + type] = each_lane<Inverse<Less>, bool, T, T>();
  forms["setp.nan." + type] = each_lane<AnyNan, bool, T, T>();
  forms["setp.num." + type] = each_lane<Inverse<AnyNan>, bool, T, T>();
}

}  // namespace

void add_comparison_forms(Forms& forms) {
  add_integer<uint16_t>(forms, "u16");
  add_integer<uint32_t>(forms, "u32");
  add_integer<uint64_t>(forms, "u64");
  add_integer<int16_t>(forms, "s16");
  add_integer<int32_t>(forms, "s32");
  add_integer<int64_t>(forms, "s64");
  add_equality<uint16_t>(forms, "b16");
  add_equality<uint32_t>(forms, "b32");
  add_equality<uint64_t>(forms, "b64");
  add_float<float>(forms, "f32");
  add_float<double>(forms, "f64");
}

}  // namespace ptx
