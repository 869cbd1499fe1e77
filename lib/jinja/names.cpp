#include "jinja/names.h"

#include <map>
#include <set>

#include "base/error.h"
#include "jinja/expression_walk.h"

namespace kvcal::jinja {
namespace {

enum class Origin {
  Argument,   // set when the block begins: parameters, targets of loops
  Elsewhere,  // an outer block or the caller of the template
  Nowhere,    // assigned here before it is read
};

// The names of a block: a template, loop, macro, ... The branches of an if are frames upon that of their block.
class Frame {
 public:
  Frame(const Frame* outer, const Frame* base) : outer_(outer), base_(base) {}

  void declare(const std::string& name) {
    origins_[name] = Origin::Argument;
    stored_.insert(name);
  }
  void load(const std::string& name) {
    if (!knows(name)) origins_[name] = Origin::Elsewhere;
  }
  void store(const std::string& name) {
    stored_.insert(name);
    if (!knows_itself(name)) origins_[name] = outer_ && outer_->knows(name) ? Origin::Elsewhere : Origin::Nowhere;
  }
  void load_all(const Expr& e) {
    if (e.kind == ExprKind::Name) load(e.name);
    for_each_child(e, [this](const Expr& child) { load_all(child); });
  }
  // What one of several branches assigns may come from outside in the others.
  void join(const std::vector<const Frame*>& branches) {
    std::set<std::string> fresh;
    for (const Frame* b : branches)
      for (const std::string& name : b->stored_)
        if (!stores(name)) fresh.insert(name);
    for (const Frame* b : branches) {
      for (const auto& [name, origin] : b->origins_) origins_[name] = origin;
      stored_.insert(b->stored_.begin(), b->stored_.end());
    }
    for (const std::string& name : fresh) origins_[name] = Origin::Elsewhere;
  }
  bool knows(const std::string& name) const { return knows_itself(name) || (outer_ && outer_->knows(name)); }
  const Frame* outer() const { return outer_; }
  std::vector<std::string> assigned_later() const {
    std::vector<std::string> names;
    for (const auto& [name, origin] : origins_)
      if (origin == Origin::Nowhere) names.push_back(name);
    return names;
  }

 private:
  bool knows_itself(const std::string& name) const {
    return origins_.count(name) > 0 || (base_ && base_->knows_itself(name));
  }
  bool stores(const std::string& name) const { return stored_.count(name) > 0 || (base_ && base_->stores(name)); }

  const Frame* outer_;
  const Frame* base_;
  std::map<std::string, Origin> origins_;
  std::set<std::string> stored_;
};

void store_target(const Expr& target, Frame& frame) {
  if (target.kind == ExprKind::Name) frame.store(target.name);
  if (target.kind == ExprKind::Attribute) frame.load_all(*target.items[0]);
  if (target.kind == ExprKind::Tuple)
    for (const ExprPtr& e : target.items) store_target(*e, frame);
}

void declare_target(const Expr& target, Frame& frame) {
  if (target.kind == ExprKind::Name) frame.declare(target.name);
  for (const ExprPtr& e : target.items) declare_target(*e, frame);
}

void read_names(const Block& body, Frame& frame);

void read_if(const Stmt& s, Frame& frame) {
  frame.load_all(*s.exprs[0]);
  Frame first(frame.outer(), &frame), elifs(frame.outer(), &frame), otherwise(frame.outer(), &frame);
  read_names(s.branches[0], first);
  for (size_t i = 1; i < s.exprs.size(); ++i) {
    elifs.load_all(*s.exprs[i]);
    Frame branch(frame.outer(), &elifs);
    read_names(s.branches[i], branch);
    elifs.join({&branch});
  }
  if (s.branches.size() > s.exprs.size()) read_names(s.branches.back(), otherwise);
  frame.join({&first, &elifs, &otherwise});
}

// What a statement reads and assigns in the block it stands in; inner blocks have frames of their own.
void read_names(const Stmt& s, Frame& frame) {
  switch (s.kind) {
    case StmtKind::If:
      return read_if(s, frame);
    case StmtKind::For:
      return frame.load_all(*s.exprs[0]);
    case StmtKind::Macro:
      return frame.store(s.macro->name);
    case StmtKind::Filter:
      for (const ExprPtr& f : s.filters) frame.load_all(*f);
      return;
    default:
      for (const ExprPtr& e : s.exprs) frame.load_all(*e);
      if (s.target) store_target(*s.target, frame);
  }
}

void read_names(const Block& body, Frame& frame) {
  for (const StmtPtr& s : body) read_names(*s, frame);
}

void enter_blocks(Block& body, const Frame& frame);

// The frame is complete: goes into the inner blocks, then hides.
void finish_block(Block& body, Frame& frame) {
  enter_blocks(body, frame);
  const std::vector<std::string> names = frame.assigned_later();
  if (names.empty()) return;
  auto hide = std::make_unique<Stmt>();
  hide->kind = StmtKind::Hide;
  hide->line = body.front()->line;
  hide->names = names;
  body.insert(body.begin(), std::move(hide));
}

void enter_loop(Stmt& s, const Frame& outer) {
  Frame frame(&outer, nullptr);
  frame.declare("loop");
  declare_target(*s.target, frame);
  read_names(s.branches[0], frame);
  finish_block(s.branches[0], frame);
  if (s.branches.size() < 2) return;
  Frame otherwise(&outer, nullptr);
  read_names(s.branches[1], otherwise);
  finish_block(s.branches[1], otherwise);
}

void enter_macro(MacroDefinition& m, const Frame& outer) {
  Frame frame(&outer, nullptr);
  for (const std::string& p : m.parameters) frame.declare(p);
  for (const ExprPtr& e : m.defaults) frame.load_all(*e);
  if (m.uses_caller) frame.declare("caller");
  if (m.uses_varargs) frame.declare("varargs");
  if (m.uses_kwargs) frame.declare("kwargs");
  read_names(m.body, frame);
  finish_block(m.body, frame);
}

// The reference does not look for names in the filters of {% set x | filter(...) %}: unknown ones stop it.
void check_known(const Expr& e, const Frame& frame) {
  if (e.kind == ExprKind::Name && !frame.knows(e.name))
    fail("line " + std::to_string(e.line) + ": name '" + e.name +
         "' in the filter of a set block, which the reference cannot resolve: it must be used outside of it too");
  for_each_child(e, [&](const Expr& child) { check_known(child, frame); });
}

void enter_block(Stmt& s, const Frame& outer) {
  Frame frame(&outer, nullptr);
  for (const ExprPtr& target : s.targets) declare_target(*target, frame);
  read_names(s.branches[0], frame);
  for (const ExprPtr& f : s.filters) {
    if (s.kind == StmtKind::SetBlock) check_known(*f, frame);
    frame.load_all(*f);
  }
  finish_block(s.branches[0], frame);
}

void enter_blocks(Block& body, const Frame& frame) {
  for (const StmtPtr& s : body) {
    if (s->kind == StmtKind::If)
      for (Block& branch : s->branches) enter_blocks(branch, frame);
    else if (s->kind == StmtKind::For)
      enter_loop(*s, frame);
    else if (s->macro)
      enter_macro(*s->macro, frame);
    else if (!s->branches.empty())
      enter_block(*s, frame);
  }
}

}  // namespace

void hide_names_assigned_later(Block& body) {
  Frame frame(nullptr, nullptr);
  read_names(body, frame);
  finish_block(body, frame);
}

}  // namespace kvcal::jinja
