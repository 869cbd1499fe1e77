#include "documents/steps.h"

#include <regex>
#include <sstream>
#include <stdexcept>

namespace kvcal::documents {
namespace {

[[noreturn]] void fail_at(int line, const std::string& what) {
  throw std::runtime_error("line " + std::to_string(line) + ": " + what);
}

bool is_ours(const std::string& command) { return command.starts_with("kvcal "); }

class Reader {
 public:
  std::vector<Step> read(std::string_view markdown) {
    std::istringstream in{std::string(markdown)};
    for (std::string line; std::getline(in, line);) {
      ++line_;
      if (line.starts_with("```"))
        fence(line.substr(3));
      else if (in_block_)
        code(line);
      else
        prose(line);
    }
    if (in_block_) fail_at(line_, "a code block does not end");
    return std::move(steps_);
  }

 private:
  void fence(const std::string& language) {
    in_block_ = !in_block_;
    console_ = in_block_ && language == "console";
    shown_ = continued_ = nullptr;
    if (!in_block_) exit_ = 0;
  }

  void prose(const std::string& line) {
    static const std::regex run(R"(<!-- run: (.*) -->)"), exits(R"(<!-- exits (\d+) -->)"),
        indented(R"( {4,}(\$ )?kvcal .*)");
    std::smatch match;
    if (std::regex_match(line, match, run)) steps_.push_back({line_, match[1], std::nullopt, 0});
    if (std::regex_match(line, match, exits)) exit_ = std::stoi(match[1]);
    if (std::regex_match(line, indented)) fail_at(line_, "a command outside of a fenced code block");
  }

  void code(const std::string& line) {
    static const std::regex run(R"(\s*(- (?:run: )?)?(.*))");
    std::smatch match;
    if (continued_ != nullptr) {
      *continued_ += "\n" + line;
      if (!line.ends_with('\\')) continued_ = nullptr;
    } else if (console_ && !line.starts_with("$ ")) {
      if (shown_ != nullptr) *shown_ += line + "\n";
    } else if (console_) {
      command(line.substr(2));
    } else if (std::regex_match(line, match, run)) {
      command(match[2]);
    }
  }

  void command(const std::string& text) {
    shown_ = nullptr;
    if (!is_ours(text)) {
      other_ = text;
      if (text.ends_with('\\')) continued_ = &other_;
      return;
    }
    steps_.push_back({line_, text, std::nullopt, exit_});
    if (console_) shown_ = &steps_.back().output.emplace();
    if (text.ends_with('\\')) continued_ = &steps_.back().command;
  }

  std::vector<Step> steps_;
  int line_ = 0, exit_ = 0;
  bool in_block_ = false, console_ = false;
  std::string other_;                 // a command of another program
  std::string* shown_ = nullptr;      // output of the last command
  std::string* continued_ = nullptr;  // a command that the next line continues
};

}  // namespace

std::vector<Step> steps_of(std::string_view markdown) { return Reader().read(markdown); }

}  // namespace kvcal::documents
