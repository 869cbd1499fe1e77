// From lines of results to the dated file: ratios with their targets, a table, and the check against the schema.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>

#include "artifact/schema_check.h"
#include "base/error.h"
#include "bench/gpu/bench.h"

namespace kvcal::bench {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) fail("cannot read " + quoted(path));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<SchemaError> errors_in(const Json& result) {
  return check_schema(result, read_file(KVCAL_SOURCE_DIR "/tests/bench/gpu/results.schema.json"));
}

bool is_run(const Json& line) { return !line.contains("not_run") && !line.contains("failed"); }
double value_of(const Json& line) { return line["median"].get<double>(); }

struct Target {
  bool at_least;
  double value;
};

std::string text(const Target& t) {
  char out[32];
  std::snprintf(out, sizeof out, "%s %g", t.at_least ? ">=" : "<=", t.value);
  return out;
}

class Ratios {
 public:
  Ratios(const std::vector<Json>& lines, const Json& ceilings) : lines_(lines), ceilings_(ceilings) {}

  Json all() {
    for (const Json& line : lines_)
      if (is_run(line)) add(line);
    return std::move(found_);
  }

 private:
  double ceiling(const char* name) const { return ceilings_.value(name, 0.0); }

  void add(const Json& line, double ratio, const std::string& of, const Target& target) {
    if (!(ratio == ratio) || ratio > 1e300) return;  // a ceiling that was not measured
    found_.push_back({{"id", line["id"]},
                      {"name", line["name"]},
                      {"ratio", ratio},
                      {"of", of},
                      {"target", text(target)},
                      {"met", target.at_least ? ratio >= target.value : ratio <= target.value}});
  }

  void add(const Json& line) {
    const std::string id = line["id"], name = line["name"];
    const double x = value_of(line);
    if (id == "P1") add(line, x / ceiling("gemm"), "P0 gemm", {true, rate_target(name)});
    if (id == "P2") add_whole_run(line);
    if (id == "P3")
      add(line, x, "a run without, in percent", {false, name.find("everything") == std::string::npos ? 0.5 : 2.0});
    if (id == "P4") add_attention(line);
    if (id == "P5") add_against_bytes(line, 5);
    if (id == "P6") add_against_bytes(line, name.find("scan") == std::string::npos ? 2 : 4);
    if (id == "P7") add(line, x, "a dense product", {false, name.find("skewed") == std::string::npos ? 1.9 : 2.2});
    if (id == "P8") add(line, x, "a loop of dense products", {false, 1});
    if (id == "P9")
      add(line, x / std::min(ceiling("disk read"), ceiling("host to device copy")), "P0 read or copy", {true, 0.9});
    if (id == "P10") add(line, x, "a run, in percent", {false, 3});
    if (id == "P11") add(line, x, "a mapping loader's", {false, 0.2});
    if (id == "P13a") add(line, x, "a lean loop", {true, rate_target(name) < 0.85 ? 3.0 : 1.8});
    if (id == "P17") add(line, x, "the plan", {false, 1.05});
    if (id == "P13b") add(line, x, "a loop of two passes with hooks", {true, 6});
  }

  /// Of the matrix product's rate: smaller products, experts and recurrences reach less.
  static double rate_target(const std::string& name) {
    for (const auto& [part, target] :
         {std::pair{"70b", 0.89}, {"35b", 0.55}, {"moe", 0.55}, {"glm", 0.63}, {"deepseek", 0.76}})
      if (name.find(part) != std::string::npos) return target;
    return 0.85;
  }

  /// Milliseconds against its bytes at the speed of a copy.
  void add_against_bytes(const Json& line, double target) {
    const double floor = line["bytes_floor"].get<double>() / (1e9 * ceiling("device to device copy"));
    add(line, 1e-3 * value_of(line) / floor, "bytes at P0 copy", {false, target});
  }

  const Json* find(const std::string& id, const std::string& member, const Json& value) const {
    for (const Json& line : lines_)
      if (line["id"] == id && is_run(line) && line.value(member, Json()) == value) return &line;
    return nullptr;
  }

  /// The same prompts and model as P1's longer run: its layers alone, or its bytes.
  void add_whole_run(const Json& line) {
    const Json *layers = find("P1", "model", line.value("model", "")),
               *loading = find("P9", "model", line.value("model", ""));
    if (!layers || !loading) return;
    const double floor = std::max(median((*layers)["seconds"].get<Values>()),
                                  (*loading)["bytes"].get<double>() / (1e9 * ceiling("disk read")));
    add(line, value_of(line) / floor, "its layers alone", {false, 1.1});
  }

  void add_attention(const Json& line) {
    const std::string whose = line["whose"];
    if (whose != "own" && whose != "default") return;
    double best = 0;
    for (const Json& other : lines_)
      if (other["id"] == "P4" && is_run(other) && other["of"] == line["of"] &&
          other["whose"].get<std::string>().starts_with("torch"))
        best = std::max(best, value_of(other));
    if (best > 0) add(line, value_of(line) / best, "torch's best", {true, whose == "own" ? 0.55 : 0.95});
  }

  const std::vector<Json>& lines_;
  const Json& ceilings_;
  Json found_ = Json::array();
};

std::vector<Json> read_lines() {
  std::vector<Json> lines;
  for (std::string line; std::getline(std::cin, line);)
    if (line.starts_with("{")) lines.push_back(parse_json(line));
  return lines;
}

void print_table(const Json& result) {
  std::printf("%-5s %-44s %9s %8s  %s\n", "", "", "ratio", "target", "of");
  for (const Json& r : result["ratios"])
    std::printf("%-5s %-44s %9.3f %8s  %s%s\n", r["id"].get<std::string>().c_str(),
                r["name"].get<std::string>().c_str(), r["ratio"].get<double>(), r["target"].get<std::string>().c_str(),
                r["of"].get<std::string>().c_str(),
                r["met"].get<bool>() || !result["measurement"].get<bool>() ? "" : "  MISSED");
  for (const Json& line : result["lines"])
    for (const char* why : {"not_run", "failed"})
      if (line.contains(why))
        std::printf("%-5s %-44s %s: %s\n", line["id"].get<std::string>().c_str(),
                    line["name"].get<std::string>().c_str(), why == std::string("failed") ? "FAILED" : "not run",
                    line[why].get<std::string>().c_str());
}

/// 1 when something is wrong with it, each thing on a line.
int report(const std::string& path, const Json& result) {
  const std::vector<SchemaError> errors = errors_in(result);
  for (const SchemaError& e : errors)
    std::fprintf(stderr, "%s: %s: %s\n", path.c_str(), e.path.empty() ? "the document" : e.path.c_str(),
                 e.message.c_str());
  return errors.empty() ? 0 : 1;
}

}  // namespace

int collect(const std::vector<std::string>& arguments) {
  if (arguments.empty()) fail("collect needs the name of the file of results");
  std::map<std::string, std::string> facts;
  for (size_t i = 1; i < arguments.size(); ++i) {
    const size_t at = arguments[i].find('=');
    if (at == std::string::npos) fail("expected FACT=VALUE, got " + quoted(arguments[i]));
    facts[arguments[i].substr(0, at)] = arguments[i].substr(at + 1);
  }
  const std::vector<Json> lines = read_lines();
  Json result{{"format", "kvcal-gpu-results-1"}, {"date", facts["date"]}, {"commit", facts["commit"]}};
  result["measurement"] = device_kind() == std::string("device");
  result["device"] = {{"name", facts["device"]}, {"driver", facts["driver"]}};
  Json ceilings = Json::object();
  for (const Json& line : lines)
    if (line["id"] == "P0" && is_run(line) && !line["name"].get<std::string>().starts_with("torch"))
      ceilings[line["name"].get<std::string>()] = line["median"];
  result["ceilings"] = ceilings;
  result["ratios"] = Ratios(lines, ceilings).all();
  result["lines"] = lines;
  for (const Json& line : lines)
    if (line.contains("failed")) result["failed"].push_back(line["name"]);
  if (report(arguments[0], result) != 0) fail(quoted(arguments[0]) + " was not written: its schema refuses it");
  std::ofstream out(arguments[0]);
  out << result.dump(1) << '\n';
  if (!out.flush()) fail("cannot write " + quoted(arguments[0]));
  if (device_kind() == std::string("emulator"))
    std::printf("A rehearsal on the emulator. Nothing here is a measurement.\n");
  print_table(result);
  return 0;
}

int check(const std::vector<std::string>& files) {
  int status = files.empty() ? 2 : 0;
  for (const std::string& file : files)
    status = std::max(
        status, report(file, while_doing("reading " + quoted(file), [&] { return parse_json(read_file(file)); })));
  return status;
}

}  // namespace kvcal::bench
