// kvcal calibrate --if-changed and --check: a file that was made before.
#include "artifact_output.h"
#include "calibrate_job.h"
#include "if_changed.h"
#include "terminal.h"

namespace kvcal {
namespace {

void say_up_to_date(const CalibrateFlags& flags, const EarlierResult& earlier) {
  if (!flags.output.quiet)
    say("kvcal: ", flags.output.path.string(),
        " is up to date: model, prompts and options are those it was made with; sha256 ", earlier.sha256.substr(0, 16));
}

}  // namespace

Exit keep_earlier(const CalibrateFlags& flags, const EarlierResult& earlier) {
  flags.output.print(*earlier.artifact, earlier.sha256, {{"changed", false}}, next_of(flags));
  say_up_to_date(flags, earlier);
  return Exit::Done;
}

Exit check_up_to_date(const CalibrateFlags& flags, CalibrationOptions options, CalibrateConsole& console) {
  const EarlierResult earlier = earlier_result(flags.output.path, flags.statistics, true);
  std::string why = earlier.why;
  if (earlier.artifact) {
    options.earlier = &*earlier.artifact;
    const std::string changes = calibrate(inputs_of(flags, options), options, console).changes;
    if (!changes.empty()) why = "changed: " + changes;
  } else if (why.empty()) {
    why = "there is no such file";
  }
  const std::string file = flags.output.path.string();
  if (flags.output.json)
    write_json({{"scales", file}, {"stale", !why.empty()}, {"why", why}});
  else if (why.empty())
    flags.output.print(*earlier.artifact, earlier.sha256, {}, next_of(flags));
  if (!why.empty())
    say("kvcal: ", file, " is stale; ", why);
  else
    say_up_to_date(flags, earlier);
  return why.empty() ? Exit::Done : Exit::Findings;
}

}  // namespace kvcal
