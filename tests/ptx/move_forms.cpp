// mov, also into and out of vectors of registers, and cvta.
#include "ptx/forms.h"

namespace ptx {
namespace {

struct Same {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};

/// The first part stands in the low bits.
template <class Whole, class Part>
void pack(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    uint64_t whole = 0;
    for (size_t k = 0; k < i.n_from; ++k)
      whole |= uint64_t{warp.values<Part>(i.from[k])[lane]} << (8 * sizeof(Part) * k);
    warp.values<Whole>(i.to[0])[lane] = static_cast<Whole>(whole);
  });
}
template <class Whole, class Part>
void unpack(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    const uint64_t whole = warp.values<Whole>(i.from[0])[lane];
    for (size_t k = 0; k < i.n_to; ++k)
      warp.values<Part>(i.to[k])[lane] = static_cast<Part>(whole >> (8 * sizeof(Part) * k));
  });
}

template <class Whole, class Part>
void add_vectors(Forms& forms, const std::string& name) {
  constexpr size_t kParts = sizeof(Whole) / sizeof(Part);
  const std::vector<Type> parts(kParts, bits_of<Part>());
  const std::string n = std::to_string(kParts);
  forms[name + "/pack" + n] = {&pack<Whole, Part>, {bits_of<Whole>()}, parts};
  forms[name + "/unpack" + n] = {&unpack<Whole, Part>, parts, {bits_of<Whole>()}};
}

template <class T>
void add_for(Forms& forms, const std::string& bits) {
  for (const char* kind : {"b", "u", "s"}) forms["mov." + (kind + bits)] = each_lane_of_bits<Same, T, T>();
}

/// Addresses of a space and generic ones differ by its window.
template <Space kSpace, bool kToGeneric>
void convert_address(Warp& warp, const Instruction& i, Lanes lanes) {
  for_each_lane(lanes, [&](unsigned lane) {
    const uint64_t a = warp.values<uint64_t>(i.from[0])[lane];
    warp.values<uint64_t>(i.to[0])[lane] = kToGeneric ? a + window_of(kSpace) : a - window_of(kSpace);
  });
}

template <Space kSpace>
void add_addresses(Forms& forms, const std::string& space) {
  const Type type = type_of<uint64_t>();
  forms["cvta." + space + ".u64"] = {&convert_address<kSpace, true>, {type}, {type}};
  forms["cvta.to." + space + ".u64"] = {&convert_address<kSpace, false>, {type}, {type}};
}

}  // namespace

void add_move_forms(Forms& forms) {
  add_for<uint16_t>(forms, "16");
  add_for<uint32_t>(forms, "32");
  add_for<uint64_t>(forms, "64");
  forms["mov.f32"] = each_lane<Same, float, float>();
  forms["mov.f64"] = each_lane<Same, double, double>();
  forms["mov.pred"] = each_lane<Same, bool, bool>();
  add_vectors<uint32_t, uint16_t>(forms, "mov.b32");
  add_vectors<uint64_t, uint32_t>(forms, "mov.b64");
  add_vectors<uint64_t, uint16_t>(forms, "mov.b64");
  add_addresses<Space::Global>(forms, "global");
  add_addresses<Space::Shared>(forms, "shared");
  add_addresses<Space::Local>(forms, "local");
  add_addresses<Space::Parameter>(forms, "param");
}

}  // namespace ptx
