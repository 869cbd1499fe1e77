// What the names in a body mean: registers, constants, variables, by scope.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ptx/program.h"

namespace ptx {

struct Register {
  Slot slot;
  Type type;
};

/// A variable with its address in its own space.
struct Symbol {
  Space space = Space::Generic;
  uint64_t address = 0;
  size_t bytes = 0;  // 0: known at the launch
};

class Names {
 public:
  Names(const Module& module, Program& program) : module_(module), program_(program) {}

  void open_scope() { scopes_.emplace_back(); }
  void close_scope() { scopes_.pop_back(); }

  /// The body of a called function sees nothing of its caller's.
  void open_function();
  void close_function();

  /// ".reg .b32 %r<47>, %temp;" after ".reg"
  void declare_registers(Reader& in);
  void declare(const std::string& name, const Symbol& symbol) { scopes_.back().symbols[name] = symbol; }
  Symbol place_local(const Variable& v);
  Symbol place_shared(const Variable& v);
  void place_parameters(const Function& entry);

  /// Of the body or special; throws Error for another name.
  Register register_named(std::string_view name, int line);
  Symbol symbol_named(std::string_view name, int line);
  Slot constant(Type type, uint64_t bits);
  Slot carry();

 private:
  struct Family {  // %r<47>
    std::vector<Slot> slots;
    Type type;
  };
  struct Scope {
    std::map<std::string, Family, std::less<>> families;
    std::map<std::string, Register, std::less<>> registers;
    std::map<std::string, Symbol, std::less<>> symbols;
  };

  Slot new_slot(Type type);
  const Register* special(std::string_view name);

  const Module& module_;
  Program& program_;
  std::vector<Scope> scopes_;
  size_t function_ = 0;  // the first scope of the function at hand
  std::vector<size_t> callers_;
  std::map<std::string, Register, std::less<>> specials_;
  std::map<std::pair<unsigned, uint64_t>, Slot> constants_;
  std::map<std::string, Symbol, std::less<>> shared_;
  size_t shared_end_ = kSharedBegin;
  bool has_carry_ = false;
  Slot carry_;
};

}  // namespace ptx
