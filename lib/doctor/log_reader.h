// From a log to facts: lines of the catalog, the server and its version, its command or the options it prints.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "doctor/facts.h"
#include "doctor/log_scanner.h"

namespace kvcal {

class LogReader {
 public:
  /// `file` is how evidence names the log. Facts of an earlier input are kept: the first one counts.
  LogReader(std::string file, Facts& facts);

  void feed(std::string_view bytes) { scanner_.feed(bytes); }
  void finish();

  size_t n_lines() const { return scanner_.n_lines(); }
  uint64_t n_bytes() const { return scanner_.n_bytes(); }

 private:
  void take(const FoundLine& line);
  void take_line(const FoundLine& line, size_t index);

  std::string file_;
  Facts& facts_;
  LogScanner scanner_;
  const bool others_started_;  // each log before this one ends after a start that went through
  std::map<std::string_view, std::vector<bool>> ranks_;  // by id: which ranks printed it
};

/// Whether the catalog has it.
bool is_known_line(std::string_view line);

/// About 150 characters of a line around a place in it.
std::string excerpt(std::string_view line, size_t at);

/// Of "(Worker_TP3_EP3 pid=219)" or "[2026-09-01 10:00:00 TP3]": 3; -1 where the line names no rank.
int rank_of(std::string_view line);

struct FactFound;
struct FactLine {
  std::string_view needle;
  void (*take)(Facts& facts, const FactFound& found);
  Engine server = Engine::Unknown;         // that prints it
  std::string_view begin = "", ends = "";  // of the word that is taken
};

/// The whole line, and where the needle begins in it.
struct FactFound {
  const FactLine& fact;
  std::string_view line;
  size_t at;
  const Evidence& from;
};

std::span<const FactLine> fact_lines();

/// Of a command that a log shows: what the user or an earlier line says goes before it.
void take_logged(Facts& facts, const ServeCommand& command, const Evidence& from);

}  // namespace kvcal
