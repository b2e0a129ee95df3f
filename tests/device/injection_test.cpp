// Tests of fault injection into every call of the device API.

#include <csignal>
#include <cstdlib>
#include <map>

#include "device/api/libraries.hpp"
#include "emulator_fixture.hpp"

namespace isthmus::device {
namespace {

using InjectionTest = EmulatorTest;

__global__ void nothing() {}

/// Returns one correct use of each injectable call.
const std::map<std::string_view, std::function<void()>>& uses() {
  static const auto pooled = [] {
    Stream stream;
    auto* pointer = malloc_pooled(64, stream);
    try {
      free_pooled(pointer, stream);
    } catch (const Error&) {
      free_pooled(pointer, stream);
      throw;
    }
  };
  static const auto events = [] {
    Stream stream;
    Event begin, end;
    begin.record(stream);
    end.record(stream);
    stream.wait(end);
    end.synchronize();
    end.done();
    elapsed(begin, end);
    stream.idle();
    stream.synchronize();
  };
  static const auto copies = [] {
    Stream stream;
    DeviceArray<int> a(std::vector<int>(16, 1));
    auto* pinned = malloc_pinned(64, {.mapped = true});
    struct Free {
      void* pointer;
      ~Free() {
        set_injection("");
        free_pinned(pointer);
      }
    } const guard{pinned};
    device_address(pinned);
    copy_async(pinned, a.get(), 64, stream);
    fill_async(a.get(), 0, 64, stream);
    copy_strided_async(pinned, a.get(), {.row_bytes = 8, .rows = 2, .source_pitch = 32}, stream);
    const CopyItem item{pinned, a.get(), 64};
    copy_batch_async({&item, 1}, stream);
    const ValueWrite write{reinterpret_cast<std::uint32_t*>(a.get()), 1};
    write_values_async({&write, 1}, stream);
    stream.synchronize();
  };
  static const auto address_space = [] {
    const std::size_t bytes = memory_granularity();
    void* const addresses = reserve_addresses(bytes);
    PhysicalMemory memory;
    struct Free {
      std::size_t bytes;
      void* addresses;
      PhysicalMemory& memory;
      bool mapped = false, ended = false;
      ~Free() {
        set_injection("");
        if (mapped) unmap_memory(addresses, bytes);
        if (memory.handle != 0) release_memory(memory);
        if (!ended) release_addresses(addresses, bytes);
      }
    } guard{bytes, addresses, memory};
    memory = create_memory(bytes);
    map_memory(addresses, memory);
    guard.mapped = true;
    set_access(addresses, bytes, 0, Access::read_write);
    unmap_memory(addresses, bytes);
    guard.mapped = false;
    release_memory(memory);
    memory = {};
    release_addresses(addresses, bytes);
    guard.ended = true;
  };
  static const auto managed = [] {
    Stream stream;
    auto* pointer = malloc_managed(64);
    struct Free {
      void* pointer;
      ~Free() {
        set_injection("");
        free_managed(pointer);
      }
    } const guard{pointer};
    prefetch(pointer, 64, Location::gpu(0), stream);
    const MemoryRange range{pointer, 64};
    prefetch_batch({&range, 1}, Location::gpu(0), stream);
    discard_batch({&range, 1}, stream);
    discard_and_prefetch_batch({&range, 1}, Location::host(), stream);
    advise(pointer, 64, Advice::read_mostly, Location::gpu(0));
    pointer_info(pointer);
    last_prefetch(pointer, 64);
  };
  static const auto registered = [] {
    std::vector<char> bytes(64);
    register_host(bytes.data(), bytes.size());
    try {
      unregister_host(bytes.data());
    } catch (const Error&) {
      unregister_host(bytes.data());
      throw;
    }
  };
  static const auto latch = [] {
    Stream stream;
    SpinLatch spin_latch;
    spin_latch.hold(stream);
    spin_latch.release();
    stream.synchronize();
  };
  static const auto launches = [] {
    Stream stream;
    launch(stream, ISTHMUS_KERNEL(nothing), {.grid = 1, .block = 1});
    stream.synchronize();
  };
  static const auto graphs = [] {
    Stream stream;
    const Graph graph(stream, [&] { launch(stream, ISTHMUS_KERNEL(nothing), {.grid = 1, .block = 1}); });
    graph.nodes();
    ExecutableGraph executable(graph);
    executable.launch(stream);
    stream.synchronize();
  };
  static const auto symbols = [] {
    static __constant__ int variable;
    int value = 1;
    Stream stream;
    copy_to_symbol(ISTHMUS_SYMBOL(variable), &value, sizeof value, stream);
    copy_from_symbol(&value, ISTHMUS_SYMBOL(variable), sizeof value, stream);
  };
  static const auto libraries = [] {
    Stream stream;
    Blas blas;
    DeviceArray<float> a(std::vector<float>(4, 1)), b(4);
    blas.sgemm(stream, 2, 2, 2, a.get(), 2, a.get(), 2, b.get(), 2);
    blas.sgemv(stream, 2, 2, a.get(), 2, a.get(), b.get());
    Fft fft(4);
    DeviceArray<std::complex<float>> workspace(4), data(4);
    fft.set_workspace(workspace.get());
    fft.run(stream, data.get(), data.get(), Fft::Direction::forward);
    Convolutions convolutions(Convolutions::Math::fp32, Convolutions::Algorithms::any);
    const auto plan = convolutions.plan({.in_image = 1, .in_channel = 1, .out_image = 1, .out_channel = 1});
    convolutions.run(stream, plan, a.get(), a.get() + 1, b.get(), workspace.get());
    stream.synchronize();
  };
  static const std::map<std::string_view, std::function<void()>> all{
      {"count", [] { count(); }},
      {"info", [] { info(0); }},
      {"select", [] { select(0); }},
      {"peer_info", [] { peer_info(0, 0); }},
      {"enable_peer_access", [] { enable_peer_access(0); }},
      {"disable_peer_access", [] { disable_peer_access(0); }},
      {"memory_info", [] { memory_info(); }},
      {"synchronize", [] { synchronize(); }},
      {"load_kernels", [] { load_kernels(); }},
      {"stream_create", events},
      {"stream_synchronize", events},
      {"stream_idle", events},
      {"stream_wait", events},
      {"event_create", events},
      {"event_record", events},
      {"event_synchronize", events},
      {"event_done", events},
      {"elapsed", events},
      {"graph_create", graphs},
      {"graph_nodes", graphs},
      {"executable_graph_create", graphs},
      {"executable_graph_launch", graphs},
      {"spin_latch_create", latch},
      {"spin_latch_hold", latch},
      {"malloc_device", [] { free_device(malloc_device(64)); }},
      {"free_device", [] { free_device(nullptr); }},
      {"malloc_pooled", pooled},
      {"free_pooled", pooled},
      {"set_pool_release_threshold", [] { set_pool_release_threshold(1 << 20); }},
      {"malloc_pinned", copies},
      {"free_pinned", [] { free_pinned(nullptr); }},
      {"register_host", registered},
      {"unregister_host", registered},
      {"device_address", copies},
      {"malloc_managed", managed},
      {"free_managed", [] { free_managed(nullptr); }},
      {"malloc_static_managed", [] { free_static_managed(malloc_static_managed(64)); }},
      {"free_static_managed", [] { free_static_managed(nullptr); }},
      {"memory_granularity", address_space},
      {"reserve_addresses", address_space},
      {"release_addresses", address_space},
      {"create_memory", address_space},
      {"release_memory", address_space},
      {"map_memory", address_space},
      {"unmap_memory", address_space},
      {"set_access", address_space},
      {"copy", copies},
      {"copy_async", copies},
      {"fill_async", copies},
      {"copy_strided_async", copies},
      {"copy_batch_async", copies},
      {"write_values_async", copies},
      {"prefetch", managed},
      {"prefetch_batch", managed},
      {"discard_batch", managed},
      {"discard_and_prefetch_batch", managed},
      {"advise", managed},
      {"pointer_info", managed},
      {"last_prefetch", managed},
      {"launch", launches},
      {"kernel_info", [] { kernel_info(ISTHMUS_KERNEL(nothing), {.grid = 1, .block = 1}); }},
      {"copy_to_symbol", symbols},
      {"copy_from_symbol", symbols},
      {"blas_create", libraries},
      {"blas_sgemm", libraries},
      {"blas_sgemv", libraries},
      {"fft_create", libraries},
      {"fft_set_workspace", libraries},
      {"fft_run", libraries},
      {"convolutions_create", libraries},
      {"convolutions_plan", libraries},
      {"convolutions_run", libraries},
  };
  return all;
}

TEST_F(InjectionTest, EveryCallFailsWhenAskedTo) {
  for (const std::string_view call : injectable_calls()) {
    const auto use = uses().find(call);
    ASSERT_NE(use, uses().end()) << "this test has no use of " << call;
    set_injection(std::string(call) + ":1");
    try {
      use->second();
      ADD_FAILURE() << call << " did not fail";
    } catch (const Error& error) {
      EXPECT_EQ(error.call(), call) << error.what();
      expect_mentions(error.what(), {"injected"});
    }
    set_injection("");
    EXPECT_NO_THROW(use->second()) << call;
  }
}

TEST_F(InjectionTest, OccurrenceAndKindAreChosen) {
  set_injection("malloc_device:3:oom,memory_info:1:lost,memory_info:2:unsupported,count:1:timeout");
  free_device(malloc_device(64));
  free_device(malloc_device(64));
  const auto kind_of = [](const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE();
    return ErrorKind::failure;
  };
  EXPECT_EQ(kind_of([] { malloc_device(64); }), ErrorKind::out_of_memory);
  free_device(malloc_device(64));
  EXPECT_EQ(kind_of([] { memory_info(); }), ErrorKind::device_lost);
  EXPECT_EQ(kind_of([] { memory_info(); }), ErrorKind::unsupported);
  EXPECT_EQ(kind_of([] { count(); }), ErrorKind::timeout);
}

TEST_F(InjectionTest, AnInterruptIsNoFailure) {
  static volatile std::sig_atomic_t signals = 0;
  const auto before = std::signal(SIGINT, [](int) { signals = signals + 1; });
  set_injection("malloc_device:2:interrupt");
  for (const int expected : {0, 1, 1}) {
    free_device(malloc_device(64));
    EXPECT_EQ(signals, expected);
  }
  static_cast<void>(std::signal(SIGINT, before));
}

TEST_F(InjectionTest, BadSpecificationsAreRefused) {
  for (const char* bad : {"malloc_devic:1", "malloc_device", "malloc_device:0", "malloc_device:x", "malloc_device:1:no",
                          "malloc_device:1x", ":1", "copy:1,,"}) {
    EXPECT_THROW(set_injection(bad), std::invalid_argument) << bad;
  }
}

// Runs in a new process, and without the fixture, which would override the environment variable.
TEST(InjectionEnvironmentTest, IsReadAtTheFirstCall) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  setenv("ISTHMUS_INJECT", "count:2", 1);
  EXPECT_EXIT(
      {
        count();
        std::exit(error_of([] { count(); }).empty() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  unsetenv("ISTHMUS_INJECT");
}

}  // namespace
}  // namespace isthmus::device
