// A PTX file as declarations; bodies of functions stay tokens until they are launched (compile.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptx/lexer.h"
#include "ptx/types.h"

namespace ptx {

/// A variable of any address space: of a module, of a body, or a parameter.
struct Variable {
  std::string name;
  unsigned alignment = 1;
  size_t bytes = 0;  // 0: as many as the launch asks for (extern .shared)
};

struct Function {
  std::string name;
  std::vector<Variable> returned, parameters;
  unsigned most_threads[3] = {0, 0, 0};  // .maxntid; 0: any
  const Token* begin = nullptr;          // after the opening brace
  const Token* end = nullptr;            // the closing brace
};

class Module {
 public:
  /// Throws Error with the line of what it does not know.
  explicit Module(std::string text);
  static std::unique_ptr<Module> read(const std::filesystem::path& file);
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  std::map<std::string, Function, std::less<>> entries, functions;
  std::map<std::string, Variable, std::less<>> shared;
  std::map<std::string, std::vector<std::byte>, std::less<>> global;  // initialized, aligned as operator new does

 private:
  void read_global(Reader& in);
  void read_function(Reader& in, bool entry);

  std::string text_;
  std::vector<Token> tokens_;
};

/// ".align 8 .b8 name[16]", from the .align or the type on.
Variable variable_of(Reader& in);

}  // namespace ptx
