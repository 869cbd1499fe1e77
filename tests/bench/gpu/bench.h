// What the benchmarks of the GPU share: the device, times, and lines of results.
//
// Each benchmark is an id of the plan (P0, P1, ...) and a name. It prints one JSON object a line:
//   {"id": "P4", "name": "hd128 ...", "unit": "TFLOP/s", "values": [...], "median": .., ...facts}
// or {"id", "name", "not_run": "why"}, or, of gpu.sh, {"id", "name", "failed": "how"}. Ratios between lines are made
// when they are collected (collect.cpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "ops/ops.h"

namespace kvcal::bench {

struct Options {
  bool toy = false;  // sizes for the emulator: every line is there, none is a measurement
  int rounds = 5;
  std::string disk = ".";           // folder for large files
  std::vector<std::string> models;  // folders
  std::string command;              // for P2
};

/// The CUDA backend; without the library of attention when own_attention. By device.cpp or emulated_device.cpp.
std::unique_ptr<Ops> make_ops(bool own_attention = false);
const char* device_kind();  // "device" or "emulator"

/// Waits for all work of the device. Throws Error when some of it failed.
void wait_for_device();

using Values = std::vector<double>;
double median(Values v);

/// Seconds of work that is queued and waited for; `rounds` times, after one more that is not counted.
double seconds_of(const std::function<void()>& work);
Values rounds_of(const Options& o, const std::function<void()>& work);

/// amount / seconds, of each round.
Values rates(double amount, const Values& seconds);

/// A copy on the device that stays.
Owned on_device(Ops& op, const Tensor& host);

/// Random bf16 rows on the device, persistent; never zeros.
Owned random_tensor(Ops& op, const Shape& shape, uint32_t seed, float sigma = 1.0f);

void print(const std::string& id, const std::string& name, const std::string& unit, const Values& values,
           Json facts = Json::object());
void print_not_run(const std::string& id, const std::string& name, const std::string& why);

// One function for each group of benchmarks.
void bench_ceilings(const Options& o);     // P0
void bench_models(const Options& o);       // P1, P3, P9, P10, P11, P17
void bench_observed(const Options& o);     // one side of P13: the prompts beside the model, all statistics
void bench_whole_run(const Options& o);    // P2
void bench_attention(const Options& o);    // P4
void bench_delta_rule(const Options& o);   // P5
void bench_state_space(const Options& o);  // P6
void bench_experts(const Options& o);      // P7, P8
void bench_picks(const Options& o);        // P18

/// Lines of results on standard input, and facts of the machine -> the file of results. `check`: of such a file.
int collect(const std::vector<std::string>& arguments);
int check(const std::vector<std::string>& files);

}  // namespace kvcal::bench
