#include "ptx/module.h"

#include <fstream>
#include <iterator>

namespace ptx {
namespace {

void skip_directive(Reader& in, std::string_view name) {
  if (name == ".version" || name == ".target" || name == ".address_size") {
    in.take();
    while (in.take_if(",")) in.take();
  } else {
    in.fail("directive '" + std::string(name) + "' is unknown");
  }
}

std::vector<Variable> parameters_of(Reader& in) {
  std::vector<Variable> list;
  if (!in.take_if("(")) return list;
  while (!in.take_if(")")) {
    in.expect(".param");
    list.push_back(variable_of(in));
    in.take_if(",");
  }
  return list;
}

const Token* end_of_body(Reader& in) {
  for (int depth = 1;;) {
    const Token* const here = in.position();
    const Token token = in.take();
    if (token.is("{")) ++depth;
    if (token.is("}") && --depth == 0) return here;
  }
}

}  // namespace

Variable variable_of(Reader& in) {
  Variable v;
  unsigned stated = 0;
  if (in.take_if(".align")) stated = static_cast<unsigned>(in.integer());
  const std::string_view word = in.take().text;
  const auto type = type_named(word.substr(1));
  if (!type || word[0] != '.') in.fail("'" + std::string(word) + "' is no type of a variable");
  v.alignment = stated ? stated : type->bytes();
  v.bytes = type->bytes();
  v.name = in.take().text;
  if (in.take_if("[")) {
    v.bytes = in.next_is("]") ? 0 : v.bytes * static_cast<size_t>(in.integer());
    in.expect("]");
  }
  return v;
}

Module::Module(std::string text) : text_(std::move(text)), tokens_(tokens_of(text_)) {
  Reader in(tokens_.data(), tokens_.data() + tokens_.size());
  while (!in.done()) {
    const Token word = in.take();
    if (word.is(".visible") || word.is(".weak") || word.is(".extern")) continue;
    if (word.is(".entry") || word.is(".func")) {
      read_function(in, word.is(".entry"));
    } else if (word.is(".shared")) {
      const Variable v = variable_of(in);
      shared.emplace(v.name, v);
      in.expect(";");
    } else if (word.is(".global")) {
      read_global(in);
    } else if (!word.is(";")) {
      skip_directive(in, word.text);
    }
  }
}

std::unique_ptr<Module> Module::read(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error("cannot open " + file.string() + "; did nvcc make it?");
  return std::make_unique<Module>(std::string(std::istreambuf_iterator<char>(in), {}));
}

void Module::read_global(Reader& in) {
  const Variable v = variable_of(in);
  std::vector<std::byte> bytes(v.bytes);
  if (in.take_if("=")) {
    in.expect("{");
    // Bytes, since nvcc makes no others; those that are not listed are zero.
    for (size_t i = 0; !in.take_if("}"); ++i) {
      if (i == v.bytes || v.alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
        in.fail("'" + v.name + "' has an initializer that does not fit");
      bytes[i] = static_cast<std::byte>(in.integer());
      in.take_if(",");
    }
  }
  in.expect(";");
  global.emplace(v.name, std::move(bytes));
}

void Module::read_function(Reader& in, bool entry) {
  Function f;
  f.returned = parameters_of(in);
  f.name = in.take().text;
  f.parameters = parameters_of(in);
  while (!in.next_is("{")) {
    if (in.next_is(";")) return;  // a declaration
    const Token word = in.take();
    if (word.is(".maxntid")) {
      for (unsigned& n : f.most_threads) {
        n = static_cast<unsigned>(in.integer());
        in.take_if(",");
      }
    } else if (word.is(".minnctapersm")) {
      in.integer();
    } else {
      fail_at(word.line, "directive '" + std::string(word.text) + "' of a function is unknown");
    }
  }
  in.expect("{");
  f.begin = in.position();
  f.end = end_of_body(in);
  (entry ? entries : functions)[f.name] = f;
}

}  // namespace ptx
