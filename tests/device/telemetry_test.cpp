// Tests of telemetry against a fake libnvidia-ml.so and a fake /sys. They run in every backend's build and need no GPU.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "device/telemetry/telemetry.hpp"
#include "fake_root.hpp"

namespace isthmus::device {
namespace {

using Strings = std::vector<std::string>;
const std::string library = ISTHMUS_FAKE_NVML;

void expect_complete(const Telemetry& t) {
  EXPECT_EQ(t.source, "nvml");
  EXPECT_EQ(t.pcie_generation, 5);
  EXPECT_EQ(t.pcie_width, 8);
  EXPECT_EQ(t.pcie_generation_max, 6);
  EXPECT_EQ(t.pcie_width_max, 16);
  EXPECT_EQ(t.sm_clock_hz, 1980e6);
  EXPECT_EQ(t.sm_clock_max_hz, 2000e6);
  EXPECT_EQ(t.memory_clock_hz, 3201e6);
  EXPECT_EQ(t.temperature_c, 41);
  EXPECT_DOUBLE_EQ(t.power_w.value(), 123.456);
  EXPECT_DOUBLE_EQ(t.power_limit_w.value(), 650);
  EXPECT_DOUBLE_EQ(t.power_limit_default_w.value(), 700);
  EXPECT_EQ(t.ecc, true);
  EXPECT_EQ(t.ecc_uncorrected, std::uint64_t{1} << 33);
  EXPECT_EQ(t.xids, std::vector<unsigned>{});
  EXPECT_EQ(t.persistence, true);
  EXPECT_EQ(t.mig, false);
  EXPECT_EQ(t.vbios, "96.00.AF.00.01");
  EXPECT_EQ(t.gsp_firmware, "580.159.04");
  EXPECT_EQ(t.compute_mode, "exclusive_process");
  EXPECT_EQ(t.throttle, (Strings{"sw_power_cap", "hw_thermal_slowdown", "bit_12"}));
  EXPECT_EQ(t.links, (Strings{"nvlink 26.562 GB/s", "nvlink 25.000 GB/s", "nvlink"}));
  EXPECT_EQ(t.foreign_processes, (std::vector<unsigned>{1}));
}

void expect_nothing(const Telemetry& t) {
  EXPECT_FALSE(t.pcie_generation || t.pcie_width || t.pcie_generation_max || t.pcie_width_max);
  EXPECT_FALSE(t.sm_clock_hz || t.sm_clock_max_hz || t.memory_clock_hz || t.temperature_c || t.power_w);
  EXPECT_FALSE(t.power_limit_w || t.power_limit_default_w || t.ecc || t.persistence || t.mig || t.ecc_uncorrected);
  EXPECT_FALSE(t.vbios || t.gsp_firmware || t.compute_mode || t.xids);
  EXPECT_FALSE(t.throttle || t.foreign_processes) << "nobody, and never, would be answers";
  EXPECT_TRUE(t.links.empty());
}

TEST(Nvml, ReadsEveryFact) {
  expect_complete(telemetry_nvml("GPU-complete", "", library));
}

TEST(Nvml, CollectsCriticalErrorsFromTheFirstQuestionOn) {
  Telemetry t = telemetry_nvml("GPU-xid", "", library);
  EXPECT_EQ(t.xids, std::vector<unsigned>{});
  refresh_nvml(t, "GPU-xid", "", library);
  EXPECT_EQ(t.xids, std::vector<unsigned>{79});
  refresh_nvml(t, "GPU-xid", "", library);
  EXPECT_EQ(t.xids, (std::vector<unsigned>{79, 79}));
  EXPECT_EQ(telemetry_nvml("GPU-complete", "", library).xids, std::vector<unsigned>{}) << "each device has its own";
}

TEST(Nvml, AnAnswerThatNoLongerComesIsNotTheOneOfBefore) {
  Telemetry t = telemetry_nvml("GPU-leaving", "", library);
  EXPECT_EQ(t.ecc_uncorrected, 3u);
  EXPECT_EQ(t.xids, std::vector<unsigned>{});
  refresh_nvml(t, "GPU-leaving", "", library);
  EXPECT_EQ(t.ecc_uncorrected, std::nullopt) << "the count of before would say that no error came up";
  EXPECT_EQ(t.xids, std::nullopt) << "nor does a GPU that is lost report that none came";
}

TEST(Nvml, ProcessesThatStartBetweenTwoQuestionsAreListed) {
  EXPECT_EQ(occupancy_nvml("GPU-crowded", "", library).processes.value().size(), 40u);
  EXPECT_EQ(telemetry_nvml("GPU-crowded", "", library).foreign_processes.value().size(), 40u);
}

TEST(Nvml, TellsWhoIsOnADevice) {
  const auto complete = occupancy_nvml("GPU-complete", "", library);
  EXPECT_EQ(complete.processes, (std::vector<unsigned>{1, 2})) << "those that compute, those that draw, not this one";
  EXPECT_EQ(complete.mig, false);
  EXPECT_EQ(occupancy_nvml("MIG-instance", "", library).processes, complete.processes) << "of its GPU";
}

TEST(Nvml, WhoIsOnADeviceIsUnknownWhereNobodyTells) {
  const auto mute = occupancy_nvml("GPU-mute", "", library);
  EXPECT_EQ(mute.processes, std::nullopt) << "which is not nobody";
  EXPECT_EQ(mute.mig, false) << "a chip that cannot be split";
  for (const auto& told : {occupancy_nvml("GPU-nobody", "", library), occupancy_nvml("GPU-complete", "", "none.so")}) {
    EXPECT_EQ(told.processes, std::nullopt);
    EXPECT_EQ(told.mig, std::nullopt);
  }
}

TEST(Nvml, FindsADeviceByItsBusWhenTheUuidIsUnknown) {
  expect_complete(telemetry_nvml("GPU-other", "0000:1b:00.0", library));
}

TEST(Nvml, AsksTheGpuOfAMigInstance) {
  expect_complete(telemetry_nvml("MIG-instance", "", library));
  EXPECT_TRUE(nvml_is_mig("instance", library));
  EXPECT_FALSE(nvml_is_mig("complete", library));
  EXPECT_FALSE(nvml_is_mig("nobody", library));
}

TEST(Nvml, TellsHowMuchMemoryIsInUse) {
  EXPECT_EQ(memory_used_nvml("GPU-complete", "", library), std::size_t{1} << 30);
  EXPECT_EQ(memory_used_nvml("GPU-nobody", "", library), std::nullopt);
  EXPECT_EQ(memory_used_nvml("GPU-complete", "", "no-such-library.so"), std::nullopt);
}

TEST(Nvml, RefreshingAsksForWhatChangesOnly) {
  Telemetry t;
  t.links = {"as it was"};
  t.vbios = "as it was";
  refresh_nvml(t, "GPU-complete", "", library);
  EXPECT_EQ(t.links, Strings{"as it was"});
  EXPECT_EQ(t.vbios, "as it was");
  const Telemetry all = telemetry_nvml("GPU-complete", "", library);
  EXPECT_TRUE(all.power_w && all.pcie_generation);
  EXPECT_EQ(t.power_w, all.power_w);
  EXPECT_EQ(t.pcie_generation, all.pcie_generation);
  EXPECT_EQ(t.throttle, all.throttle);
  EXPECT_EQ(t.foreign_processes, all.foreign_processes);
}

TEST(Nvml, RefreshingLosesNothingWhereNobodyAnswers) {
  const Telemetry before = telemetry_nvml("GPU-complete", "", library);
  Telemetry t = before;
  refresh_nvml(t, "GPU-complete", "", "/no/such.so");
  EXPECT_EQ(t.power_w, before.power_w);
  EXPECT_EQ(t.source, "nvml");
}

TEST(Nvml, LeavesOutWhatIsNotSupported) {
  const Telemetry t = telemetry_nvml("GPU-mute", "", library);
  EXPECT_EQ(t.source, "nvml");
  expect_nothing(t);
}

TEST(Nvml, IsSilentWithoutDeviceOrLibrary) {
  for (const Telemetry& t :
       {telemetry_nvml("GPU-none", "", library), telemetry_nvml("GPU-complete", "", "/no/such.so")}) {
    EXPECT_EQ(t.source, "");
    expect_nothing(t);
  }
  EXPECT_FALSE(nvml_driver_version("/no/such.so"));
}

TEST(Nvml, TellsTheDriverVersion) {
  EXPECT_EQ(nvml_driver_version(library), "580.159.04");
  ASSERT_EQ(setenv("ISTHMUS_NVML", library.c_str(), 1), 0);
  EXPECT_EQ(nvml_driver_version(), "580.159.04");
  unsetenv("ISTHMUS_NVML");
}

const std::string bus = "0000:c1:00.0";
const std::string device = "sys/bus/pci/devices/" + bus + "/";

TEST(Sysfs, ReadsEveryFact) {
  FakeRoot root;
  root.write(device + "current_link_speed", "16.0 GT/s PCIe");
  root.write(device + "current_link_width", "16");
  root.write(device + "max_link_speed", "32.0 GT/s PCIe");
  root.write(device + "max_link_width", "16");
  root.write(device + "numa_node", "3");
  root.write(device + "pp_dpm_sclk", "0: 500Mhz\n1: 800Mhz *\n2: 1700Mhz");
  root.write(device + "pp_dpm_mclk", "0: 400Mhz\n1: 1600Mhz *");
  root.write(device + "hwmon/hwmon7/temp1_input", "40000");
  root.write(device + "hwmon/hwmon7/temp1_label", "edge");
  root.write(device + "hwmon/hwmon7/temp2_input", "52000");
  root.write(device + "hwmon/hwmon7/temp2_label", "junction");
  root.write(device + "hwmon/hwmon7/power1_average", "95000000");
  root.write(device + "hwmon/hwmon7/power1_cap", "500000000");
  root.write(device + "hwmon/hwmon7/power1_cap_default", "560000000");
  root.write(device + "ras/umc_err_count", "ue: 2\nce: 7");
  root.write(device + "ras/sdma_err_count", "ue: 1\nce: 0");
  root.write(device + "vbios_version", "113-D65210-073");
  root.write(device + "current_compute_partition", "SPX");
  root.write(device + "current_memory_partition", "NPS1");
  const std::string nodes = "sys/class/kfd/kfd/topology/nodes/";
  root.write(nodes + "0/properties", "simd_count 0\nlocation_id 0\ndomain 0");
  root.write(nodes + "4/properties", "simd_count 440\nlocation_id 49408\ndomain 0");  // location 0xc100 is c1:00.0
  root.write(nodes + "4/gpu_id", "51140");
  root.write(nodes + "4/io_links/0/properties", "type 2\nmax_bandwidth 32000");
  root.write(nodes + "4/io_links/1/properties", "type 11\nmax_bandwidth 50000");
  root.write("sys/class/kfd/kfd/proc/1/vram_51140", "4096");
  root.write("sys/class/kfd/kfd/proc/2/vram_51140", "0");
  root.write("sys/class/kfd/kfd/proc/" + std::to_string(getpid()) + "/vram_51140", "4096");

  const Telemetry t = telemetry_sysfs(bus, root.path());
  EXPECT_EQ(t.source, "sysfs");
  EXPECT_EQ(t.pcie_generation, 4);
  EXPECT_EQ(t.pcie_width, 16);
  EXPECT_EQ(t.pcie_generation_max, 5);
  EXPECT_EQ(t.pcie_width_max, 16);
  EXPECT_EQ(t.sm_clock_hz, 800e6);
  EXPECT_EQ(t.sm_clock_max_hz, 1700e6);
  EXPECT_EQ(t.memory_clock_hz, 1600e6);
  EXPECT_DOUBLE_EQ(t.temperature_c.value(), 52);
  EXPECT_DOUBLE_EQ(t.power_w.value(), 95);
  EXPECT_DOUBLE_EQ(t.power_limit_w.value(), 500);
  EXPECT_DOUBLE_EQ(t.power_limit_default_w.value(), 560);
  EXPECT_EQ(t.ecc, true);
  EXPECT_EQ(t.ecc_uncorrected, 3u);
  EXPECT_EQ(t.vbios, "113-D65210-073");
  EXPECT_EQ(t.compute_mode, "SPX, NPS1");
  EXPECT_EQ(t.links, (Strings{"xgmi 50.000 GB/s"}));
  EXPECT_EQ(t.foreign_processes, (std::vector<unsigned>{1}));
  EXPECT_EQ(numa_node_sysfs(bus, root.path()), 3);
}

TEST(Sysfs, TellsHowMuchMemoryIsInUse) {
  FakeRoot root;
  EXPECT_EQ(memory_used_sysfs(bus, root.path()), std::nullopt);
  root.write(device + "mem_info_vram_used", "17179869184");
  EXPECT_EQ(memory_used_sysfs(bus, root.path()), std::size_t{16} << 30);
  EXPECT_EQ(memory_used_sysfs("", root.path()), std::nullopt);
}

TEST(Sysfs, LeavesOutWhatIsMissingOrUnreadable) {
  FakeRoot root;
  root.write(device + "current_link_speed", "Unknown");
  root.write(device + "current_link_width", "");
  root.write(device + "pp_dpm_sclk", "garbage");
  root.write(device + "hwmon/hwmon0/temp1_input", "N/A");
  const Telemetry t = telemetry_sysfs(bus, root.path());
  EXPECT_EQ(t.source, "sysfs");
  expect_nothing(t);
  EXPECT_EQ(numa_node_sysfs(bus, root.path()), -1);
}

TEST(Sysfs, IsSilentWithoutTheDevice) {
  FakeRoot root;
  EXPECT_EQ(telemetry_sysfs(bus, root.path()).source, "");
  EXPECT_EQ(telemetry_sysfs("", root.path()).source, "");
  EXPECT_EQ(numa_node_sysfs("", root.path()), -1);
}

}  // namespace
}  // namespace isthmus::device
