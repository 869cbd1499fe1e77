// Makes a program of the tokens of a kernel.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ptx/module.h"
#include "ptx/program.h"

namespace ptx {

/// What an instruction is, by its name with all modifiers; a mov with braces is "mov.b64/pack2" or "mov.b64/unpack2".
struct Form {
  Execute execute = nullptr;
  std::vector<Type> to, from;
  std::vector<Space> addresses = {};  // of the operands in brackets
  Control control = Control::Plain;
  size_t access = 0;                        // bytes at an address
  bool wide_to = false, wide_from = false;  // those registers may have more bits than the type says
  bool stores_undefined = false;  // nvcc stores the padding of structs with registers that nothing was written to
  bool carry_in = false, carry_out = false;
};
using Forms = std::unordered_map<std::string, Form>;

/// All that are known.
const Forms& forms();

/// Throws Error with the line of an unknown form, register, label or a wrong operand.
Program compile(const Module& module, const Function& entry);

}  // namespace ptx
