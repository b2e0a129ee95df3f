// Tests of links against a fake libnvidia-ml.so and a fake /sys. They run in every backend's build and need no GPU.

#include "device/telemetry/link.hpp"

#include <gtest/gtest.h>

#include "fake_root.hpp"

namespace isthmus::device {
namespace {

TEST(PcieRate, CountsAfterLineCoding) {
  EXPECT_NEAR(pcie_rate(3, 16).value(), 15.754e9, 1e6);
  EXPECT_NEAR(pcie_rate(4, 16).value(), 31.508e9, 1e6);
  EXPECT_NEAR(pcie_rate(5, 16).value(), 63.015e9, 1e6);
  EXPECT_NEAR(pcie_rate(1, 1).value(), 250e6, 1);
  EXPECT_FALSE(pcie_rate(9, 16));
  EXPECT_FALSE(pcie_rate(5, 0));
}

// --- NVML ------------------------------------------------------------------------------------------

std::optional<Link> ask(const std::string& uuid, const std::string& peer_uuid, std::string* why = nullptr,
                        const std::string& library = ISTHMUS_FAKE_NVML) {
  std::string reason;
  const auto peer = peer_uuid.empty() ? std::nullopt : std::optional(LinkEnd{peer_uuid, ""});
  auto link = link_nvml({uuid, ""}, peer, reason, library);
  EXPECT_EQ(link.has_value(), reason.empty()) << reason;
  if (why != nullptr) *why = reason;
  return link;
}

void expect(const std::optional<Link>& link, const char* kind, int count, double rate, const char* text) {
  ASSERT_TRUE(link);
  EXPECT_EQ(link->kind, kind);
  EXPECT_EQ(link->count, count);
  EXPECT_NEAR(link->rate, rate, rate * 1e-4);
  EXPECT_EQ(link->text, text);
}

TEST(NvmlLink, CountsTheNvLinksThatGoToThePeer) {
  expect(ask("GPU-left", "GPU-right"), "nvlink", 2, 50e9, "2 NVLinks of 25.00 GB/s");
  expect(ask("GPU-left", "GPU-third"), "nvlink", 1, 25e9, "1 NVLink of 25.00 GB/s");
}

TEST(NvmlLink, CountsAllThatGoToSwitchesAndTakesTheSmallerEnd) {
  expect(ask("GPU-switched", "GPU-switched-older"), "nvlink", 3, 79.686e9, "3 NVLinks of 26.56 GB/s");
  expect(ask("GPU-switched-older", "GPU-switched"), "nvlink", 3, 79.686e9, "3 NVLinks of 26.56 GB/s");
}

TEST(NvmlLink, SaysWhenItKnowsOnlyThatNvLinkJoinsThem) {
  expect(ask("GPU-virtual", "GPU-virtual-peer"), "nvlink", 2, 53.124e9,
         "2 NVLinks of 26.56 GB/s, all active ones: the driver reports that NVLink connects the two, but not by which "
         "links");
}

TEST(NvmlLink, IsPcieBySlowerEndWhereNvLinkDoesNotJoinThem) {
  expect(ask("GPU-right", "GPU-third"), "pcie", 8, 15.754e9, "PCIe 4 x8");
  expect(ask("GPU-third", "GPU-right"), "pcie", 8, 15.754e9, "PCIe 4 x8");
  expect(ask("GPU-switched", "GPU-switched-apart"), "pcie", 16, 63.015e9, "PCIe 5 x16");
}

TEST(NvmlLink, ToTheHostIsChipToChipOrPcie) {
  expect(ask("GPU-superchip", ""), "c2c", 9, 402.408e9, "9 C2C links of 44.71 GB/s");
  expect(ask("GPU-left", ""), "pcie", 16, 63.015e9, "PCIe 5 x16");
  expect(ask("GPU-complete", ""), "pcie", 8, 31.508e9, "PCIe 5 x8");
  expect(ask("MIG-instance", ""), "pcie", 8, 31.508e9, "PCIe 5 x8");
}

TEST(NvmlLink, SaysWhyNobodyCanTell) {
  std::string reason;
  EXPECT_FALSE(ask("GPU-rateless", "GPU-rateless-peer", &reason));
  EXPECT_EQ(reason, "the driver does not report the rate of the NVLinks");
  EXPECT_FALSE(ask("GPU-superchip-rateless", "", &reason));
  EXPECT_EQ(reason, "the driver does not report the rate of the C2C links");
  EXPECT_FALSE(ask("GPU-mute", "", &reason));
  EXPECT_EQ(reason, "the link's generation and width could not be read");
  EXPECT_FALSE(ask("GPU-none", "", &reason));
  EXPECT_FALSE(ask("GPU-left", "GPU-none", &reason));
  EXPECT_FALSE(ask("GPU-left", "", &reason, "/no/such.so"));
  EXPECT_EQ(reason, "NVML cannot be loaded or does not know the device");
}

// --- sysfs -----------------------------------------------------------------------------------------

const std::string near = "0000:c1:00.0", far = "0000:c6:00.0", apart = "0001:c6:00.0";

class SysfsLink : public testing::Test {
 protected:
  SysfsLink() {
    const auto node = [&](const char* number, const char* properties) {
      root.write(nodes + number + "/properties", properties);
    };
    node("0", "simd_count 0\nlocation_id 0\ndomain 0");
    node("1", "simd_count 440\nlocation_id 49408\ndomain 0");  // location 0xc100 is c1:00.0
    node("2", "simd_count 440\nlocation_id 50688\ndomain 0");  // location 0xc600 is c6:00.0
    node("3", "simd_count 440\nlocation_id 50688\ndomain 1");
    const auto pci = [&](const std::string& bus, const char* speed, const char* width) {
      root.write("sys/bus/pci/devices/" + bus + "/current_link_speed", speed);
      root.write("sys/bus/pci/devices/" + bus + "/current_link_width", width);
    };
    pci(near, "32.0 GT/s PCIe", "16");
    pci(far, "32.0 GT/s PCIe", "16");
    pci(apart, "16.0 GT/s PCIe", "16");
    links_of_near("0", "type 2\nnode_from 1\nnode_to 0\nmax_bandwidth 63000");
    links_of_near("1", "type 11\nnode_from 1\nnode_to 2\nmax_bandwidth 64000");
  }
  void links_of_near(const char* number, const char* properties) {
    root.write(nodes + "1/io_links/" + number + "/properties", properties);
  }
  std::optional<Link> ask(const std::string& bus, const std::optional<std::string>& peer) {
    reason.clear();
    return link_sysfs(bus, peer, reason, root.path());
  }
  const std::string nodes = "sys/class/kfd/kfd/topology/nodes/";
  FakeRoot root;
  std::string reason;
};

TEST_F(SysfsLink, FindsXgmiBetweenTwoDevices) {
  expect(ask(near, far), "xgmi", 1, 64e9, "xGMI of 64.00 GB/s");
  links_of_near("2", "type 11\nnode_from 1\nnode_to 2\nmax_bandwidth 64000");
  expect(ask(near, far), "xgmi", 2, 128e9, "2 xGMI links, 128.00 GB/s together");
}

TEST_F(SysfsLink, IsPcieBySlowerEndWithoutXgmi) {
  expect(ask(near, apart), "pcie", 16, 31.508e9, "PCIe 4 x16");
  expect(ask(apart, near), "pcie", 16, 31.508e9, "PCIe 4 x16");
}

TEST_F(SysfsLink, ToTheHostIsPcieOrXgmi) {
  expect(ask(near, std::nullopt), "pcie", 16, 63.015e9, "PCIe 5 x16");
  links_of_near("0", "type 11\nnode_from 1\nnode_to 0\nmax_bandwidth 36000");
  expect(ask(near, std::nullopt), "xgmi", 1, 36e9, "xGMI of 36.00 GB/s");
}

TEST_F(SysfsLink, SaysWhyNobodyCanTell) {
  links_of_near("1", "type 11\nnode_from 1\nnode_to 2\nmax_bandwidth 0");
  EXPECT_FALSE(ask(near, far));
  EXPECT_EQ(reason, "the driver does not report the rate of xGMI");
  EXPECT_FALSE(ask("0000:00:00.0", std::nullopt));
  EXPECT_EQ(reason, "the link's generation and width could not be read");
  EXPECT_FALSE(ask("", far));
  EXPECT_FALSE(reason.empty());
}

}  // namespace
}  // namespace isthmus::device
