// The same checkpoint under validate and doctor: what is an error for one is told by the other.
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor_fixture.h"
#include "unit/scale_folder.h"
#include "unit/validate_folder_cases.h"

namespace kvcal {
namespace {

bool is_told(const Diagnosis& d, std::string_view rule) {
  // Of one backend, which doctor waits for; and of drafts, which this command has none of.
  if (rule == "V07" || rule == "V11") return true;
  return std::ranges::any_of(d.findings, [&](const Sign& sign) { return sign.entry->id == rule; });
}

Diagnosis diagnosis_of(const FolderCase& c, const std::string& server) {
  ScaleFolder folder = c.folder;
  c.change(folder);
  Doctor doctor;
  doctor.add_server(parse_engine(server));
  doctor.add_command("command", server.starts_with("vllm")
                                    ? "vllm serve m --kv-cache-dtype fp8"
                                    : "python -m sglang.launch_server --model-path m --kv-cache-dtype fp8_e4m3");
  const TempFolder place;
  folder.write(place);
  doctor.add_checkpoint(place / "model");
  return doctor.diagnose();
}

TEST(DoctorFolder, TellsEveryErrorThatValidateTells) {
  for (const FolderCase& c : folder_cases())
    for (const std::string& server : c.servers.empty() ? std::vector<std::string>{"vllm"} : c.servers) {
      const Diagnosis d = diagnosis_of(c, server);
      for (const auto& rule : c.expected)
        if (rule_named(rule).severity == Severity::Error) {
          EXPECT_TRUE(is_told(d, rule)) << rule << " of " << c.name << "\n" << diagnosis_text(d).text();
        }
    }
}

}  // namespace
}  // namespace kvcal
