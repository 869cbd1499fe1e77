// A diagnosis: pass in the inputs in any order, then ask.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/lines.h"
#include "deployment/cache_type.h"
#include "doctor/entry.h"
#include "doctor/facts.h"
#include "doctor/rules.h"

namespace kvcal {

/// How far the findings carry an explanation.
enum class Likelihood : uint8_t { Possible, Likely, Certain };
std::string_view name_of(Likelihood likelihood);  // "possible", "likely", "certain"

struct Explanation {
  Cause cause = Cause::None;
  int score = 0, strongest = 0;      // of its weights
  std::vector<std::string> because;  // ids, the weightiest first
  const Entry* best = nullptr;       // of these: its fix is the explanation's
  bool of_some_versions = false;     // so is that sign
  bool is_beside_exception = false;  // which is not known, and stops the server where this does not
};

std::string_view name_of(Cause cause);  // "scales-missing": for programs
/// A sentence about this cache.
std::string title_of(Cause cause, const CacheType& cache);
Likelihood likelihood_of(const Explanation& explanation);

/// The causes that findings speak for, the most likely first. A finding that says so itself (9) beats any number of
/// hints; hints of one cause add up.
std::vector<Explanation> explain(const std::vector<Sign>& signs);

struct InputSummary {
  std::string name, kind;  // "log", "checkpoint", "adapter", "scale file", "command", "output"
  size_t n_lines = 0;      // of logs
  uint64_t n_bytes = 0;
};

struct Diagnosis {
  std::vector<InputSummary> inputs;
  Facts facts;
  std::vector<Sign> findings;  // warnings and worse, the gravest first
  std::vector<Sign> notes;     // what is so also where all is well
  std::vector<Explanation> explanations;
  struct NotEvaluated {
    std::string id, missing;
  };
  std::vector<NotEvaluated> not_evaluated;
  std::string unknown_exception;  // that the log shows and nothing here explains; "": none
};

/// A command, or a file of one, that starts no server with rules.
struct StartsNoServer : Error {
  using Error::Error;
};

class Doctor {
 public:
  /// Fills a buffer, returns how many bytes; 0 at the end.
  using Source = std::function<size_t(char* buffer, size_t bytes)>;

  /// What the user says of the server; it counts more than what is found.
  void add_server(const NamedEngine& server);
  /// The server that is installed: its names go before those of the program's tables. diagnose() throws Error where the
  /// other inputs are of another server or version.
  void add_installed(InstalledServer server);
  /// Throws Error for a GPU that is not known.
  void add_gpu(const std::string& text);
  /// Any size, read once.
  void add_log(const std::string& name, const Source& source);
  /// A command line as typed. Throws StartsNoServer, and Error where it is no YAML or the like.
  void add_command(const std::string& name, std::string_view text);
  void add_checkpoint(const std::filesystem::path& path);
  /// A LoRA adapter's folder, or its adapter_config.json.
  void add_adapter(const std::filesystem::path& path);
  void add_scale_file(const std::filesystem::path& path);
  void add_output(const std::string& name, std::string_view text);

  Diagnosis diagnose();

 private:
  Facts facts_;
  std::vector<InputSummary> inputs_;
};

/// For people. `Entry::fix` has its {model} and {command} filled in.
Lines diagnosis_text(const Diagnosis& diagnosis);
Json diagnosis_json(const Diagnosis& diagnosis);
/// The catalog: a line per entry, or as JSON.
Lines catalog_text();
Json catalog_json();
/// Its entries of an id, in any case; several where a log line is recognized in several ways.
std::vector<const Entry*> catalog_named(std::string_view id);
/// The fix where no inputs are known.
std::string general_fix(const Entry& entry);

/// "MODEL" where it is not known.
std::string model_name(const Facts& facts);

/// The fix of an entry for these inputs, its {...} filled in; {command} is the serve command without the options that
/// harm. What is in effect already, and what would stop the server by another rule, is left out; "" if nothing is left.
std::string fix_text(const Entry& entry, const Facts& facts);

struct FactRow {
  std::string name;
  std::string value;  // "": not known
  std::string from;   // where it was read, or what would settle it
};

std::vector<FactRow> fact_rows(const Facts& facts);
Lines facts_text(const Facts& facts);
Json facts_json(const Facts& facts);

/// What does not come from a file may be endless; larger logs belong into one.
constexpr uint64_t kMostStreamedBytes = uint64_t{4} << 30;

/// Of a regular file, or of the pipe that a shell makes of <(COMMAND); "-" is standard input. Throws Error for what may
/// never end: named pipes and devices; and while reading, where a pipe gives more than `most_streamed`.
Doctor::Source log_source(const std::string& name, uint64_t most_streamed = kMostStreamedBytes);

/// What stands between ", " and "; " of a fix, each with what is before it.
struct FixPart {
  std::string before, text;
};
std::vector<FixPart> parts_of(std::string_view fix);

/// The fix of an entry; where export refuses the class for the server it names the plug-in or kvcal fold instead, and
/// {control} where there is neither.
std::string export_advice(std::string_view fix, const Facts& facts);

}  // namespace kvcal
