#include "ptx/body.h"

#include <charconv>

namespace ptx {
namespace {

constexpr int kMostCalls = 8;  // in one another

/// "0f3F800000", "0d...": nothing for a literal of another kind.
std::optional<uint64_t> float_bits(std::string_view text, int bits) {
  const bool right = text.starts_with(bits == 32 ? "0f" : "0d") && text.size() == 2U + static_cast<size_t>(bits) / 4;
  if (!right) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_float(std::string_view text) { return text.starts_with("0f") || text.starts_with("0d"); }

}  // namespace

Program compile(const Module& module, const Function& entry) {
  Program program;
  program.name = entry.name;
  program.most_threads = {entry.most_threads[0], entry.most_threads[1], entry.most_threads[2]};
  Body(module, program).compile(entry);
  return program;
}

void Body::compile(const Function& entry) {
  names_.open_function();
  names_.place_parameters(entry);
  Reader in(entry.begin, entry.end);
  Labels labels;
  statements(in, labels);
  finish(entry, labels);
  names_.close_function();
}

void Body::statements(Reader& in, Labels& labels) {
  while (!in.done()) statement(in, labels);
}

void Body::statement(Reader& in, Labels& labels) {
  if (in.take_if(";")) return;
  if (in.take_if("{")) return names_.open_scope();
  if (in.take_if("}")) return names_.close_scope();
  if (in.take_if(".reg")) return names_.declare_registers(in);
  if (in.take_if(".pragma")) {
    in.take();
    return in.expect(";");
  }
  for (const char* space : {".local", ".param", ".shared"}) {
    if (!in.take_if(space)) continue;
    const Variable v = variable_of(in);
    // Parameters of a call are memory of the thread that calls.
    names_.declare(v.name, std::string_view(space) == ".shared" ? names_.place_shared(v) : names_.place_local(v));
    return in.expect(";");
  }
  if (in.next_is("@")) return instruction(in, guard(in), labels);
  if (in.peek().text[0] == '.') in.fail("directive '" + std::string(in.peek().text) + "' is unknown");
  const Token* const begin = in.position();
  const Token word = in.take();
  if (in.take_if(":")) {
    labels.places[word.text] = static_cast<uint32_t>(program_.code.size());
    return;
  }
  in.go_to(begin);
  instruction(in, {}, labels);
}

Body::Guard Body::guard(Reader& in) {
  in.expect("@");
  Guard g{true, in.take_if("!"), {}};
  const Token word = in.take();
  const Register r = names_.register_named(word.text, word.line);
  if (r.type.kind != Kind::Predicate) fail_at(word.line, "'" + std::string(word.text) + "' is no predicate");
  g.slot = r.slot;
  return g;
}

void Body::instruction(Reader& in, const Guard& guard, Labels& labels) {
  Instruction i;
  const Token word = in.take();
  i.line = word.line;
  i.name = word.text;
  i.guarded = guard.there;
  i.negated = guard.negated;
  i.guard = guard.slot;
  if (i.name == "bra" || i.name == "bra.uni") return branch(in, i, labels);
  if (i.name == "call.uni" || i.name == "call") {
    if (guard.there) fail_at(i.line, "a call with a predicate is unknown");
    return call(in);
  }
  if (i.name == "ret" && depth_ > 0) {
    i.control = Control::Branch;
    labels.returns.push_back(program_.code.size());
    program_.code.push_back(i);
    return in.expect(";");
  }
  regular(in, i);
}

void Body::branch(Reader& in, Instruction i, Labels& labels) {
  i.control = Control::Branch;
  i.uniform = i.name == "bra.uni";
  labels.jumps.emplace_back(program_.code.size(), in.take());
  program_.code.push_back(i);
  in.expect(";");
}

/// After its last statement.
void Body::finish(const Function& function, Labels& labels) {
  const auto end = static_cast<uint32_t>(program_.code.size());
  for (const auto& [at, label] : labels.jumps) {
    const auto place = labels.places.find(label.text);
    if (place == labels.places.end() || place->second == end)
      fail_at(label.line, "label '" + std::string(label.text) + "' stands before no instruction");
    program_.code[at].target = place->second;
  }
  for (const size_t at : labels.returns) program_.code[at].target = end;
  const Instruction* const last = end > 0 ? &program_.code.back() : nullptr;
  const bool ends = last && !last->guarded && (last->control == Control::Return || last->control == Control::Branch);
  if (!ends) throw Error(function.name + " does not end with ret");
}

void Body::call(Reader& in) {
  const auto list = [&] {
    std::vector<Token> names;
    in.expect("(");
    while (!in.take_if(")")) {
      names.push_back(in.take());
      in.take_if(",");
    }
    return names;
  };
  std::vector<Token> returned, given;
  if (in.next_is("(")) {
    returned = list();
    in.expect(",");
  }
  const Token name = in.take();
  if (in.take_if(",")) given = list();
  in.expect(";");

  const auto found = module_.functions.find(name.text);
  if (found == module_.functions.end()) fail_at(name.line, "function '" + std::string(name.text) + "' has no body");
  const Function& f = found->second;
  if (returned.size() != f.returned.size() || given.size() != f.parameters.size() || ++depth_ > kMostCalls)
    fail_at(name.line, "'" + f.name + "' is called with other parameters than it has, or too deep");
  std::vector<std::pair<const Variable*, Symbol>> bound;
  const auto bind = [&](const std::vector<Token>& actual, const std::vector<Variable>& formal) {
    for (size_t k = 0; k < actual.size(); ++k) {
      const Symbol s = names_.symbol_named(actual[k].text, actual[k].line);
      if (s.bytes != formal[k].bytes || s.address % formal[k].alignment != 0)
        fail_at(name.line, std::to_string(s.bytes) + " bytes are given for parameter '" + formal[k].name +
                               "', which has " + std::to_string(formal[k].bytes));
      bound.emplace_back(&formal[k], s);
    }
  };
  bind(returned, f.returned);
  bind(given, f.parameters);

  names_.open_function();
  for (const auto& [variable, symbol] : bound) names_.declare(variable->name, symbol);
  Reader body(f.begin, f.end);
  Labels labels;
  statements(body, labels);
  finish(f, labels);
  names_.close_function();
  --depth_;
}

void Body::regular(Reader& in, Instruction i) {
  std::string name(i.name);
  const std::vector<Operand> values = operands(in, name);
  const auto form = forms().find(name);
  if (form == forms().end()) fail_at(i.line, "instruction '" + name + "' is unknown");
  i.execute = form->second.execute;
  i.control = form->second.control;
  i.stores_undefined = form->second.stores_undefined;
  assign(i, form->second, values);
  program_.code.push_back(i);
}

/// Up to the semicolon, without commas and braces.
std::vector<Body::Operand> Body::operands(Reader& in, std::string& name) {
  std::vector<Operand> list;
  const bool braces_count = name.starts_with("mov.");
  while (!in.take_if(";")) {
    if (in.take_if("{")) {
      const size_t before = list.size();
      while (!in.take_if("}")) {
        list.push_back(operand(in));
        in.take_if(",");
      }
      if (braces_count) name += (before == 0 ? "/unpack" : "/pack") + std::to_string(list.size() - before);
    } else {
      list.push_back(operand(in));
    }
    if (!in.take_if(",")) in.take_if("|");
  }
  return list;
}

Body::Operand Body::operand(Reader& in) {
  const int line = in.line();
  const auto offset = [&]() -> int64_t {
    if (in.take_if("+")) return in.integer();
    return in.next_is("-") ? in.integer() : 0;
  };
  if (in.take_if("[")) {
    Operand o{Operand::Kind::Address, in.take().text, 0, line};
    o.offset = offset();
    in.expect("]");
    return o;
  }
  if (in.take_if("-")) return {Operand::Kind::Literal, in.take().text, -1, line};
  const Token word = in.take();
  if (!word.is_word()) fail_at(line, "'" + std::string(word.text) + "' is no operand");
  if (word.text[0] == '%') return {Operand::Kind::Register, word.text, 0, line};
  if (word.text[0] >= '0' && word.text[0] <= '9') return {Operand::Kind::Literal, word.text, 0, line};
  return {Operand::Kind::Symbol, word.text, offset(), line};
}

void Body::assign(Instruction& i, const Form& form, const std::vector<Operand>& values) {
  const size_t expected = form.to.size() + form.from.size() + form.addresses.size();
  if (values.size() != expected)
    fail_at(i.line, "'" + std::string(i.name) + "' has " + std::to_string(values.size()) + " operands, expected " +
                        std::to_string(expected));
  for (const Operand& o : values) {
    if (i.n_addresses < form.addresses.size() && o.kind == Operand::Kind::Address) {
      i.address[i.n_addresses] = address(o, form.addresses[i.n_addresses], form.access);
      ++i.n_addresses;
    } else if (i.n_to < form.to.size()) {
      i.to[i.n_to] = destination(o, form.to[i.n_to], form.wide_to);
      if (form.wide_to) i.register_bytes[i.n_to] = width(o, form.to[0]);
      ++i.n_to;
    } else {
      const Type type = form.from.at(i.n_from);
      i.from[i.n_from] = source(o, type, form.wide_from);
      if (form.wide_from) i.register_bytes[i.n_from] = width(o, type);
      ++i.n_from;
    }
  }
  if (form.carry_out) i.to[i.n_to++] = names_.carry();
  if (form.carry_in) i.from[i.n_from++] = names_.carry();
}

/// The bytes of a register, or of a constant of that type.
uint8_t Body::width(const Operand& o, Type type) {
  const bool is_register = o.kind == Operand::Kind::Register;
  return static_cast<uint8_t>((is_register ? names_.register_named(o.text, o.line).type : type).bytes());
}

Slot Body::destination(const Operand& o, Type type, bool wider) {
  if (o.kind != Operand::Kind::Register) fail_at(o.line, "'" + std::string(o.text) + "' cannot be written");
  return source(o, type, wider);
}

Slot Body::source(const Operand& o, Type type, bool wider) {
  if (o.kind == Operand::Kind::Register) {
    const Register r = names_.register_named(o.text, o.line);
    if (!fits(r.type, type, wider))
      fail_at(o.line,
              "register '" + std::string(o.text) + "' is a " + name_of(r.type) + ", expected a " + name_of(type));
    return r.slot;
  }
  if (o.kind == Operand::Kind::Symbol) {
    if (type.kind == Kind::Float || type.bits < 32) fail_at(o.line, "'" + std::string(o.text) + "' is an address");
    const Symbol s = names_.symbol_named(o.text, o.line);
    return names_.constant(type, s.address + static_cast<uint64_t>(o.offset));
  }
  if (o.kind == Operand::Kind::Address) fail_at(o.line, "an address where a value is expected");
  if (is_float(o.text)) {
    const auto bits = float_bits(o.text, type.bits);
    if (!bits || (type.kind != Kind::Float && type.kind != Kind::Bits))
      fail_at(o.line, "'" + std::string(o.text) + "' is no " + name_of(type));
    return names_.constant(type, *bits);
  }
  if (type.kind == Kind::Float) fail_at(o.line, "'" + std::string(o.text) + "' is no " + name_of(type));
  const Token token{o.text, o.line};
  Reader literal(&token, &token + 1);
  uint64_t value = static_cast<uint64_t>(literal.integer());
  if (o.offset < 0) value = 0 - value;
  if (type.kind == Kind::Predicate) value = value != 0;
  if (type.bits < 64) value &= (uint64_t{1} << type.bits) - 1;
  return names_.constant(type, value);
}

Address Body::address(const Operand& o, Space space, size_t access) {
  if (o.text[0] == '%') {
    const Register r = names_.register_named(o.text, o.line);
    if (r.type.kind == Kind::Predicate || r.type.kind == Kind::Float || r.type.bits < 32)
      fail_at(o.line, "register '" + std::string(o.text) + "' is no address");
    return {space, r.slot, r.type.bits == 64, o.offset};
  }
  const Symbol s = names_.symbol_named(o.text, o.line);
  // ld.param and st.param are for a kernel's parameters and for those of calls, which lie with the caller.
  const bool of_call = space == Space::Parameter && s.space == Space::Local;
  if (s.space != space && !of_call) fail_at(o.line, "'" + std::string(o.text) + "' lies in another address space");
  if (s.bytes > 0 && (o.offset < 0 || static_cast<size_t>(o.offset) + access > s.bytes))
    fail_at(o.line, std::to_string(access) + " bytes at " + std::to_string(o.offset) + " of '" + std::string(o.text) +
                        "', which has " + std::to_string(s.bytes));
  return {s.space, names_.constant({Kind::Unsigned, 64}, s.address), true, o.offset};
}

}  // namespace ptx
