// ld, st and atom.
#include <algorithm>

#include "ptx/forms.h"

namespace ptx {
namespace {

/// A vector is one access. Registers wider than T get its value extended by sign or zero.
template <class T>
void load(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    const std::byte* const from = warp.read(i.address[0], sizeof(T) * i.n_to, lane);
    for (size_t k = 0; k < i.n_to; ++k) {
      T value;
      std::memcpy(&value, from + k * sizeof(T), sizeof(T));
      const auto extended = static_cast<uint64_t>(value);
      std::memcpy(warp.values<std::byte>(i.to[k]) + size_t{lane} * i.register_bytes[k], &extended, i.register_bytes[k]);
    }
  });
}

template <class T>
void store(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    std::byte* const to = warp.write(i.address[0], sizeof(T) * i.n_from, lane);
    for (size_t k = 0; k < i.n_from; ++k) {
      std::memcpy(to + k * sizeof(T), warp.values<std::byte>(i.from[k]) + size_t{lane} * i.register_bytes[k],
                  sizeof(T));
      if (!warp.is_defined(i.from[k], lane))
        warp.memory().forget(i.address[0].space, warp.address(i.address[0], lane) + k * sizeof(T), sizeof(T),
                             warp.thread(lane));
    }
  });
}

struct SpaceName {
  const char* name;
  Space space;
};
constexpr SpaceName kSpaces[] = {
    {"", Space::Generic},          {".global", Space::Global},          {".shared", Space::Shared},
    {".local", Space::Local},      {".param", Space::Parameter},        {".global.nc", Space::Global},
    {".volatile", Space::Generic}, {".volatile.global", Space::Global}, {".volatile.shared", Space::Shared}};
constexpr size_t kWidest = 16;  // bytes

/// T is what the bytes are read as: an integer of the type's size, signed where the type is.
template <class T>
void add_for(Forms& forms, const std::string& name) {
  const Type type = *type_named(name);
  for (const SpaceName& s : kSpaces)
    for (const size_t n : {1, 2, 4}) {
      if (n * sizeof(T) > kWidest) continue;
      const std::string rest = s.name + (n > 1 ? ".v" + std::to_string(n) : "") + "." + name;
      Form form{&load<T>, std::vector<Type>(n, type), {}, {s.space}};
      form.access = n * sizeof(T);
      form.wide_to = true;
      forms["ld" + rest] = form;
      if (rest.starts_with(".global.nc")) continue;  // is read-only
      std::swap(form.to, form.from);
      std::swap(form.wide_to, form.wide_from);
      form.execute = &store<T>;
      form.stores_undefined = s.space == Space::Shared || s.space == Space::Local;
      forms["st" + rest] = form;
    }
}

struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Most {
  template <class T>
  T operator()(T a, T b) const {
    return std::max(a, b);
  }
};

/// Lane after lane: the ISA promises no order.
template <class F, class T>
void atomic(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    T old;
    std::memcpy(&old, warp.read(i.address[0], sizeof(T), lane), sizeof(T));
    const T result = F{}(old, warp.values<T>(i.from[0])[lane]);
    std::memcpy(warp.write(i.address[0], sizeof(T), lane), &result, sizeof(T));
    warp.values<T>(i.to[0])[lane] = old;
  });
}

template <class T>
void add_atomics(Forms& forms, const std::string& type) {
  for (size_t k = 0; k < 3; ++k) {
    Form form{&atomic<Add, T>, {type_of<T>()}, {type_of<T>()}, {kSpaces[k].space}};
    form.access = sizeof(T);
    forms[std::string("atom") + kSpaces[k].name + ".add." + type] = form;
    form.execute = &atomic<Most, T>;
    forms[std::string("atom") + kSpaces[k].name + ".max." + type] = form;
  }
}

}  // namespace

void add_memory_forms(Forms& forms) {
  for (const std::string kind : {"b", "u"}) {
    add_for<uint8_t>(forms, kind + "8");
    add_for<uint16_t>(forms, kind + "16");
    add_for<uint32_t>(forms, kind + "32");
    add_for<uint64_t>(forms, kind + "64");
  }
  add_for<int8_t>(forms, "s8");
  add_for<int16_t>(forms, "s16");
  add_for<int32_t>(forms, "s32");
  add_for<int64_t>(forms, "s64");
  add_for<uint32_t>(forms, "f32");
  add_for<uint64_t>(forms, "f64");
}

void add_atomic_forms(Forms& forms) {
  add_atomics<uint32_t>(forms, "u32");
  add_atomics<uint64_t>(forms, "u64");
}

}  // namespace ptx
