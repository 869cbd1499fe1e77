#include "ptx/names.h"

#include <algorithm>
#include <charconv>

namespace ptx {
namespace {

constexpr size_t kMostStaticShared = size_t{48} << 10;
constexpr std::string_view kSpecialNames[] = {"%tid.x",   "%tid.y",    "%tid.z",    "%ntid.x",
                                              "%ntid.y",  "%ntid.z",   "%ctaid.x",  "%ctaid.y",
                                              "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"};
static_assert(std::size(kSpecialNames) == kSpecials);

size_t aligned(size_t at, size_t alignment) { return (at + alignment - 1) / alignment * alignment; }

/// No more than that, so that an access which needs more shows.
size_t just_aligned(size_t at, size_t alignment) {
  at = aligned(at, alignment);
  return at % (2 * alignment) == 0 ? at + alignment : at;
}

}  // namespace

void Names::open_function() {
  callers_.push_back(function_);
  function_ = scopes_.size();
  open_scope();
}

void Names::close_function() {
  scopes_.resize(function_);
  function_ = callers_.back();
  callers_.pop_back();
}

Slot Names::new_slot(Type type) {
  const Slot slot{static_cast<uint32_t>(program_.register_bytes), static_cast<uint32_t>(program_.n_registers++)};
  program_.register_bytes += type.bytes() * size_t{kWarp};
  return slot;
}

void Names::declare_registers(Reader& in) {
  const Token word = in.take();
  const auto type = type_named(word.text.substr(1));
  if (!type) fail_at(word.line, "'" + std::string(word.text) + "' is no type of a register");
  do {
    const std::string name(in.take().text);
    if (in.take_if("<")) {
      Family family{{}, *type};
      const int64_t n = in.integer();
      in.expect(">");
      for (int64_t i = 0; i < n; ++i) family.slots.push_back(new_slot(*type));
      scopes_.back().families[name] = std::move(family);
    } else {
      scopes_.back().registers[name] = {new_slot(*type), *type};
    }
  } while (in.take_if(","));
  in.expect(";");
}

Symbol Names::place_local(const Variable& v) {
  const size_t at = just_aligned(program_.local_bytes, v.alignment);
  program_.local_bytes = at + v.bytes;
  return {Space::Local, at, v.bytes};
}

Symbol Names::place_shared(const Variable& v) {
  const auto known = shared_.find(v.name);  // one function may be put in several places
  if (known != shared_.end()) return known->second;
  Symbol symbol{Space::Shared, just_aligned(kDynamicBegin, v.alignment), 0};
  if (v.bytes == 0) {
    program_.dynamic_at = symbol.address;  // that of all such variables: a source has one
  } else {
    symbol = {Space::Shared, just_aligned(shared_end_, v.alignment), v.bytes};
    shared_end_ = symbol.address + v.bytes + kSharedGap;
    if (shared_end_ > kSharedBegin + kMostStaticShared)
      throw Error(program_.name + ": more than 48 KiB of shared variables");
    program_.shared.push_back({v, symbol.address});
  }
  shared_[v.name] = symbol;
  return symbol;
}

void Names::place_parameters(const Function& entry) {
  for (const Variable& v : entry.parameters) {
    const size_t at = aligned(program_.parameter_bytes, v.alignment);
    program_.parameters.push_back({v, at});
    program_.parameter_bytes = at + v.bytes;
    declare(v.name, {Space::Parameter, at, v.bytes});
  }
}

const Register* Names::special(std::string_view name) {
  const auto* const at = std::find(std::begin(kSpecialNames), std::end(kSpecialNames), name);
  if (at == std::end(kSpecialNames)) return nullptr;
  const auto [entry, fresh] = specials_.try_emplace(std::string(name));
  if (fresh) {
    const Type type{Kind::Unsigned, 32};
    entry->second = {new_slot(type), type};
    program_.specials.push_back({entry->second.slot, static_cast<Special>(at - kSpecialNames)});
  }
  return &entry->second;
}

Register Names::register_named(std::string_view name, int line) {
  if (const Register* r = special(name)) return *r;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  size_t number = 0;
  std::from_chars(name.data() + digits, name.data() + name.size(), number);
  for (size_t s = scopes_.size(); s-- > function_;) {
    const auto alone = scopes_[s].registers.find(name);
    if (alone != scopes_[s].registers.end()) return alone->second;
    const auto family = scopes_[s].families.find(name.substr(0, digits));
    if (digits < name.size() && family != scopes_[s].families.end() && number < family->second.slots.size())
      return {family->second.slots[number], family->second.type};
  }
  fail_at(line, "register '" + std::string(name) + "' is not declared");
}

Symbol Names::symbol_named(std::string_view name, int line) {
  for (size_t s = scopes_.size(); s-- > function_;) {
    const auto found = scopes_[s].symbols.find(name);
    if (found != scopes_[s].symbols.end()) return found->second;
  }
  const auto shared = module_.shared.find(name);
  if (shared != module_.shared.end()) return place_shared(shared->second);
  const auto global = module_.global.find(name);
  if (global != module_.global.end())
    return {Space::Global, reinterpret_cast<uint64_t>(global->second.data()), global->second.size()};
  fail_at(line, "'" + std::string(name) + "' is not declared");
}

Slot Names::constant(Type type, uint64_t bits) {
  const auto [entry, fresh] = constants_.try_emplace({type.bits, bits});
  if (fresh) {
    entry->second = new_slot(type);
    program_.constants.push_back({entry->second, type, bits});
  }
  return entry->second;
}

Slot Names::carry() {
  if (!has_carry_) carry_ = new_slot({Kind::Unsigned, 32});
  has_carry_ = true;
  return carry_;
}

}  // namespace ptx
