// Goes through a kernel's body and emits its instructions. Calls are put in place: the functions that nvcc leaves
// neither recurse nor have their addresses taken.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ptx/compile.h"
#include "ptx/names.h"

namespace ptx {

class Body {
 public:
  Body(const Module& module, Program& program) : module_(module), program_(program), names_(module, program) {}

  void compile(const Function& entry);

 private:
  struct Operand {
    enum class Kind : uint8_t { Register, Literal, Symbol, Address } kind;
    std::string_view text;  // the register, literal or symbol; of an address, what it begins with
    int64_t offset = 0;     // of a symbol or an address; -1: a literal's minus sign
    int line = 0;
  };
  struct Guard {
    bool there = false, negated = false;
    Slot slot;
  };
  struct Labels {
    std::map<std::string_view, uint32_t> places;
    std::vector<std::pair<size_t, Token>> jumps;  // instructions whose targets are to be found
    std::vector<size_t> returns;                  // of a function that was put in place
  };

  void statements(Reader& in, Labels& labels);
  void statement(Reader& in, Labels& labels);
  void instruction(Reader& in, const Guard& guard, Labels& labels);
  void branch(Reader& in, Instruction i, Labels& labels);
  void call(Reader& in);
  void regular(Reader& in, Instruction i);
  void finish(const Function& function, Labels& labels);
  Guard guard(Reader& in);
  std::vector<Operand> operands(Reader& in, std::string& name);
  Operand operand(Reader& in);
  void assign(Instruction& i, const Form& form, const std::vector<Operand>& values);
  uint8_t width(const Operand& o, Type type);
  Slot destination(const Operand& o, Type type, bool wider);
  Slot source(const Operand& o, Type type, bool wider);
  Address address(const Operand& o, Space space, size_t access);

  const Module& module_;
  Program& program_;
  Names names_;
  int depth_ = 0;  // of calls
};

}  // namespace ptx
