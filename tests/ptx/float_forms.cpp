// Arithmetic of f32 and f64. Rounded instructions (.rn, .rz, .rm, .rp) are IEEE's, which the host computes exactly; of
// the approximate ones (ex2, rcp, ...) the ISA states bounds of the error, and the host's value lies well within.
#include <cfenv>

#include "ptx/float_values.h"
#include "ptx/forms.h"

namespace ptx {
namespace {

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a + b);
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a - b);
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a * b);
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return canonical(a / b);
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return canonical(std::fma(a, b, c));
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return canonical(T{1} / a);
  }
};
struct Root {
  template <class T>
  T operator()(T a) const {
    return canonical(std::sqrt(a));
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    return -a;
  }
};
struct Magnitude {
  template <class T>
  T operator()(T a) const {
    return std::fabs(a);
  }
};
/// The sign of the first operand, on the second.
struct CopySign {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

// A NaN gives way to a number; -0 is less than +0.
struct Least {
  template <class T>
  T operator()(T a, T b) const {
    if (a != a) return canonical(b);
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    if (a != a) return canonical(b);
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  }
};

/// max relative error 2^-22 (ISA, ex2).
struct PowerOfTwo {
  float operator()(float a) const { return canonical(std::exp2(a)); }
};
/// a times 1 / b: 2 ulp where b's magnitude is from 2^-126 to 2^126, and nothing beyond (ISA, div).
struct ApproximateQuotient {
  float operator()(float a, float b) const {
    const float magnitude = std::fabs(b);
    if (magnitude > 0x1p126F && !std::isinf(b)) return canonical(a * std::copysign(0.0F, b));
    return canonical(a / b);
  }
};
/// The upper half of the result, of the upper half of the operand: what software refines.
struct CoarseReciprocal {
  double operator()(double a) const {
    if (a != a) return std::bit_cast<double>(uint64_t{0x7FFFFFFF00000000});
    constexpr uint64_t kUpper = 0xFFFFFFFF00000000;
    double upper = std::bit_cast<double>(std::bit_cast<uint64_t>(a) & kUpper);
    if (std::fabs(upper) < std::numeric_limits<double>::min()) upper = std::copysign(0.0, upper);
    const double r = 1.0 / upper;
    if (std::fabs(r) < std::numeric_limits<double>::min()) return std::copysign(0.0, r);
    return std::bit_cast<double>(std::bit_cast<uint64_t>(r) & kUpper);
  }
};

/// F with subnormal operands and results flushed.
template <class F>
struct Flushing {
  template <class... T>
  float operator()(T... a) const {
    return flushed(F{}(flushed(a)...));
  }
};
/// F with its result clamped to [0, 1]; NaN becomes +0.
template <class F>
struct Saturating {
  template <class... T>
  float operator()(T... a) const {
    const float x = F{}(a...);
    return x > 0.0F ? std::fmin(x, 1.0F) : 0.0F;
  }
};

/// An instruction while the host rounds another way.
template <int kMode, Execute kExecute>
void rounding(Warp& warp, const Instruction& i, Lanes lanes) {
  const int before = std::fegetround();
  std::fesetround(kMode);
  kExecute(warp, i, lanes);
  std::fesetround(before);
}

template <class F, class T, class... S>
void add_rounded(Forms& forms, const std::string& op, const std::string& type) {
  constexpr Execute kNearest = &EachLane<F, T, S...>::execute;
  const Form nearest = each_lane<F, T, S...>();
  const auto with = [&](Execute execute) {
    Form form = nearest;
    form.execute = execute;
    return form;
  };
  forms[op + ".rn" + type] = nearest;
  forms[op + ".rz" + type] = with(&rounding<FE_TOWARDZERO, kNearest>);
  forms[op + ".rm" + type] = with(&rounding<FE_DOWNWARD, kNearest>);
  forms[op + ".rp" + type] = with(&rounding<FE_UPWARD, kNearest>);
}

template <class T>
void add_for(Forms& forms, const std::string& type) {
  add_rounded<Add, T, T, T>(forms, "add", type);
  add_rounded<Subtract, T, T, T>(forms, "sub", type);
  add_rounded<Multiply, T, T, T>(forms, "mul", type);
  add_rounded<MultiplyAdd, T, T, T, T>(forms, "fma", type);
  add_rounded<Divide, T, T, T>(forms, "div", type);
  add_rounded<Reciprocal, T, T>(forms, "rcp", type);
  add_rounded<Root, T, T>(forms, "sqrt", type);
  // Without a word on rounding it is to the nearest.
  forms["add" + type] = each_lane<Add, T, T, T>();
  forms["sub" + type] = each_lane<Subtract, T, T, T>();
  forms["mul" + type] = each_lane<Multiply, T, T, T>();
  forms["neg" + type] = each_lane<Negate, T, T>();
  forms["abs" + type] = each_lane<Magnitude, T, T>();
  forms["copysign" + type] = each_lane<CopySign, T, T, T>();
  forms["min" + type] = each_lane<Least, T, T, T>();
  forms["max" + type] = each_lane<Most, T, T, T>();
}

}  // namespace

void add_float_forms(Forms& forms) {
  add_for<float>(forms, ".f32");
  add_for<double>(forms, ".f64");
  forms["add.rn.ftz.f32"] = each_lane<Flushing<Add>, float, float, float>();
  forms["sub.rn.ftz.f32"] = each_lane<Flushing<Subtract>, float, float, float>();
  forms["mul.rn.ftz.f32"] = each_lane<Flushing<Multiply>, float, float, float>();
  forms["fma.rn.ftz.f32"] = each_lane<Flushing<MultiplyAdd>, float, float, float, float>();
  forms["abs.ftz.f32"] = each_lane<Flushing<Magnitude>, float, float>();
  forms["neg.ftz.f32"] = each_lane<Flushing<Negate>, float, float>();
  forms["max.ftz.f32"] = each_lane<Flushing<Most>, float, float, float>();
  forms["min.ftz.f32"] = each_lane<Flushing<Least>, float, float, float>();
  forms["add.sat.f32"] = each_lane<Saturating<Add>, float, float, float>();
  forms["mul.sat.f32"] = each_lane<Saturating<Multiply>, float, float, float>();
  forms["fma.rn.sat.f32"] = each_lane<Saturating<MultiplyAdd>, float, float, float, float>();
  forms["ex2.approx.f32"] = each_lane<PowerOfTwo, float, float>();
  forms["ex2.approx.ftz.f32"] = each_lane<Flushing<PowerOfTwo>, float, float>();
  forms["div.approx.f32"] = each_lane<ApproximateQuotient, float, float, float>();
  forms["rcp.approx.ftz.f32"] = each_lane<Flushing<Reciprocal>, float, float>();
  forms["rcp.approx.ftz.f64"] = each_lane<CoarseReciprocal, double, double>();
}

}  // namespace ptx
