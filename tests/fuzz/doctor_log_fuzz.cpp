// Any bytes as a log, a command, an output and a scanned stream cut anywhere: a diagnosis, never an exception.
#include "doctor/diagnose.h"
#include "doctor/input_kind.h"
#include "fuzz/fuzzing.h"

namespace {

using namespace kvcal;

Doctor::Source reading(std::string_view text, size_t chunk) {
  return [text, chunk, at = size_t{0}](char* buffer, size_t bytes) mutable {
    const size_t n = text.copy(buffer, std::min(bytes, chunk), at);
    at += n;
    return n;
  };
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::string reports[2];
  for (const size_t chunk : {size_t{1} << 20, size_t{7}}) {
    Doctor doctor;
    doctor.add_log("log", reading(text, chunk));
    doctor.add_output("output", text.substr(0, 4096));
    Diagnosis diagnosis;
    const bool done = fuzzing::accepts([&] { diagnosis = doctor.diagnose(); });
    fuzzing::require(done, "a log gives a diagnosis, whatever is in it");
    const std::string report = diagnosis_text(diagnosis).text();
    fuzzing::require(report.find('\x1b') == std::string::npos, "nothing of a log steers a terminal");
    diagnosis_json(diagnosis).dump(1, ' ', false, Json::error_handler_t::replace);
    reports[chunk == 7] = report;
  }
  fuzzing::require(reports[0] == reports[1], "where a stream is cut does not matter");
  fuzzing::accepts([&] {
    Doctor doctor;
    doctor.add_command("command", text);
    diagnosis_text(doctor.diagnose());
  });
  kind_of_input(text, true);
  return 0;
}
