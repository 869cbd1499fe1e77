// docs/architecture.md says how a scale follows from what was measured. Here its formula is computed from the
// statistics file's bytes, which nothing of the program reads for it, and must give the demo's scales: to the last bit
// those of the scale file, and those that README shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

namespace kvcal::documents {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kSource = KVCAL_SOURCE_DIR;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A safetensors file: eight bytes of length, a header, the tensors.
struct StatisticsBytes {
  std::string bytes;
  json header, about;

  explicit StatisticsBytes(const fs::path& path) : bytes(read(path)) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    header = json::parse(bytes.substr(8, length));
    about = json::parse(header["__metadata__"]["kvcal"].get<std::string>());
    bytes.erase(0, 8 + length);
  }

  double largest(const std::string& name) const {
    const json& tensor = header.at(name);
    double most = 0;
    for (size_t at = tensor["data_offsets"][0]; at < tensor["data_offsets"][1].get<size_t>();) {
      if (tensor["dtype"] == "F64") {
        double x = 0;
        std::memcpy(&x, bytes.data() + at, sizeof x);
        most = std::max(most, x);
        at += sizeof x;
      } else {
        uint16_t half = 0;
        std::memcpy(&half, bytes.data() + at, sizeof half);
        const uint32_t whole = uint32_t{half} << 16;
        float x = 0;
        std::memcpy(&x, &whole, sizeof x);
        most = std::max(most, static_cast<double>(x));
        at += sizeof half;
      }
    }
    return most;
  }
};

float rounded_up(double x) {
  const auto near = static_cast<float>(x);
  return static_cast<double>(near) < x ? std::nextafterf(near, std::numeric_limits<float>::infinity()) : near;
}

/// By layer and site, as docs/architecture.md says it.
std::map<std::pair<int, std::string>, float> by_formula(const StatisticsBytes& file, int64_t context) {
  constexpr double kHeadroom = 2, kMax = 448, kTwoRoundings = 129.0 / 128;
  const bool rotated_further = context > file.about["calibration"]["longest"].get<int64_t>();
  std::map<std::pair<int, std::string>, float> scales;
  for (const json& cache : file.about["caches"]) {
    const std::string prefix = "c" + std::to_string(cache["cache"].get<int>()) + ".";
    for (const std::string site : {"key", "value", "query"}) {
      double range = file.largest(prefix + site + ".absmax");
      if (site == "key" && rotated_further)
        range = std::max(range, kTwoRoundings * file.largest(prefix + "key.pair_norm"));
      scales[{cache["layer"], site}] = rounded_up(range * kHeadroom / kMax);
    }
  }
  return scales;
}

class Demo : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / "kvcal_scale_formula_XXXXXX";
    std::string name = folder_.string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    const fs::path demo = kSource / "datasets/demo";
    run("calibrate " + (demo / "stressed").string() + " --prompts " + (demo / "prompts.jsonl").string() +
        " -q -o s.json --stats run.kvstats");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void run(const std::string& command) const {
    const std::string line = "cd '" + folder_.string() + "' && '" KVCAL_PROGRAM "' " + command;
    ASSERT_EQ(std::system(line.c_str()), 0) << command;
  }

  void expect_formula(const char* scale_file, int64_t context) const {
    const json file = json::parse(read(folder_ / scale_file));
    const auto expected = by_formula(StatisticsBytes(folder_ / "run.kvstats"), context);
    size_t n = 0;
    for (const json& layer : file["layers"])
      for (const char* site : {"key", "value", "query"}) {
        ++n;
        EXPECT_EQ(layer[site]["scale"].get<float>(), expected.at({layer["index"], site})) << layer["index"] << site;
      }
    EXPECT_EQ(n, expected.size());
  }

  fs::path folder_;
};

TEST_F(Demo, ScalesFollowFromTheDocumentedFormula) {
  const StatisticsBytes file(folder_ / "run.kvstats");
  const int64_t longest = file.about["calibration"]["longest"], positions = file.about["model"]["max_positions"];
  ASSERT_GT(positions, longest) << "else the demo would not show what keys provide for";
  run("solve run.kvstats -q --policy absmax -o absmax.json");
  expect_formula("absmax.json", positions);
  run("solve run.kvstats -q --policy absmax -o short.json --max-model-len " + std::to_string(longest));
  expect_formula("short.json", longest);
}

/// What pow2 may give: the formula's scale rounded up to a power of two, and below 1.0 any from there up to 1.0.
void expect_near_one(double scale, double formula, const std::string& what) {
  const double exponent = std::round(std::log2(scale)), least = std::ceil(std::log2(formula));
  EXPECT_NEAR(scale / std::exp2(exponent), 1, 1e-4) << what;  // README shows five digits
  EXPECT_GE(exponent, least) << what;
  EXPECT_LE(exponent, std::max(0.0, least)) << what;
}

TEST_F(Demo, DefaultScalesLieBetweenTheFormulaAndOne) {
  const StatisticsBytes statistics(folder_ / "run.kvstats");
  const auto formula = by_formula(statistics, statistics.about["model"]["max_positions"]);
  const json scales = json::parse(read(folder_ / "s.json"));
  for (const json& layer : scales["layers"])
    for (const char* site : {"key", "value", "query"})
      expect_near_one(layer[site]["scale"].get<double>(), static_cast<double>(formula.at({layer["index"], site})),
                      layer["index"].dump() + site);
}

TEST_F(Demo, ReadmeShowsTheseScales) {
  const StatisticsBytes file(folder_ / "run.kvstats");
  const auto expected = by_formula(file, file.about["model"]["max_positions"]);
  std::istringstream lines(read(kSource / "README.md"));
  size_t n = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    int layer = 0;
    std::string site;
    double absmax = 0, scale = 0;
    if (!(cells >> layer >> site >> absmax >> scale) || !expected.contains({layer, site})) continue;
    ++n;
    expect_near_one(scale, static_cast<double>(expected.at({layer, site})), line);
  }
  size_t n_needed = 0;  // the table has no row for the others
  const json scales = json::parse(read(folder_ / "s.json"));
  for (const json& layer : scales["layers"])
    for (const char* site : {"key", "value", "query"})
      n_needed += layer[site]["assessment"]["scale"].get<std::string>() == "needed" ? 1 : 0;
  EXPECT_EQ(n, n_needed);
}

}  // namespace
}  // namespace kvcal::documents
