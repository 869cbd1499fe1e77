#include "ptx/types.h"

#include <charconv>

namespace ptx {

std::optional<Type> type_named(std::string_view name) {
  if (name == "pred") return Type{Kind::Predicate, 8};
  if (name.size() < 2) return std::nullopt;
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), bits);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return std::nullopt;
  const auto size = static_cast<uint8_t>(bits);
  switch (name[0]) {
    case 'b':
      return Type{Kind::Bits, size};
    case 'u':
      return Type{Kind::Unsigned, size};
    case 's':
      return Type{Kind::Signed, size};
    case 'f':
      return bits >= 16 ? std::optional(Type{Kind::Float, size}) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string name_of(Type type) {
  constexpr char kLetters[] = {'p', 'b', 'u', 's', 'f'};
  if (type.kind == Kind::Predicate) return ".pred";
  return std::string(".") + kLetters[static_cast<size_t>(type.kind)] + std::to_string(type.bits);
}

bool fits(Type register_type, Type instruction_type, bool wider) {
  const auto is = [&](Kind kind) { return register_type.kind == kind || instruction_type.kind == kind; };
  if (is(Kind::Predicate)) return register_type == instruction_type;
  if (register_type.bits != instruction_type.bits) {
    // A value of fewer bits stands in the low bits of an integer register.
    return wider && register_type.bits > instruction_type.bits && !is(Kind::Float);
  }
  return is(Kind::Bits) || !is(Kind::Float) || register_type.kind == instruction_type.kind;
}

}  // namespace ptx
