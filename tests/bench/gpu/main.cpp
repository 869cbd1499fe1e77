// What the CUDA backend reaches of what the machine can do; gpu.sh runs it.
//
//   gpu_bench PART... [--toy] [--rounds N] [--disk FOLDER] [--model FOLDER]... [--command 'kvcal calibrate ...']
//   gpu_bench collect RESULT.json FACT=VALUE... < lines
//   gpu_bench check RESULT.json...
//
// PART: ceilings attention delta state_space experts picks models observed whole_run.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "bench/gpu/bench.h"

namespace kvcal::bench {

/// P2: a whole process, with its start, loading and writing.
void bench_whole_run(const Options& o) {
  if (o.command.empty()) return print_not_run("P2", "whole run", "no --command");
  const Values seconds = rounds_of(o, [&] {
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    if (std::system(o.command.c_str()) != 0) fail("P2: this failed: " + o.command);
  });
  const std::string model = o.models.empty() ? "" : std::filesystem::path(o.models[0]).filename().string();
  print("P2", "whole run", "s", seconds, {{"model", model}, {"command", o.command}});
}

namespace {

int run(const std::vector<std::string>& arguments) {
  static const std::map<std::string, void (*)(const Options&)> kParts = {
      {"ceilings", bench_ceilings},  {"attention", bench_attention},
      {"delta", bench_delta_rule},   {"state_space", bench_state_space},
      {"experts", bench_experts},    {"models", bench_models},
      {"picks", bench_picks},        {"observed", bench_observed},
      {"whole_run", bench_whole_run}};
  Options o;
  std::vector<void (*)(const Options&)> parts;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) fail(a + " needs a value");
      return arguments[++i];
    };
    if (a == "--toy")
      o.toy = true;
    else if (a == "--rounds")
      o.rounds = std::stoi(value());
    else if (a == "--disk")
      o.disk = value();
    else if (a == "--model")
      o.models.push_back(value());
    else if (a == "--command")
      o.command = value();
    else if (const auto part = kParts.find(a); part != kParts.end())
      parts.push_back(part->second);
    else
      fail("unknown part or option " + quoted(a));
  }
  if (parts.empty() || o.rounds < 1) fail("nothing to do: see the head of main.cpp");
  for (const auto part : parts) part(o);
  return 0;
}

}  // namespace
}  // namespace kvcal::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto rest = [&] { return std::vector<std::string>(arguments.begin() + 1, arguments.end()); };
  try {
    if (!arguments.empty() && arguments[0] == "collect") return kvcal::bench::collect(rest());
    if (!arguments.empty() && arguments[0] == "check") return kvcal::bench::check(rest());
    return kvcal::bench::run(arguments);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_bench: %s\n", e.what());
    return 2;
  }
}
