/* The description of a node's simulated GPUs, as parsed from its file.
 *
 * The format is documented in docs/simulated-gpus.md; gpufleet/simgpu writes and reads the same.
 */
#ifndef GPUFLEET_CONF_H
#define GPUFLEET_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_FORMAT_VERSION = 1,
    SIM_MAX_GPUS = 64,
    SIM_MAX_SWITCHES = 16,
    SIM_MAX_XIDS = 32,
    SIM_MAX_PROCESSES = 64,
    SIM_MAX_CPUS = 1024,
    SIM_MAX_FILE_BYTES = 1 << 20,
};

enum sim_fault { SIM_FAULT_NONE, SIM_FAULT_LOST, SIM_FAULT_HANG };
enum sim_throttle { SIM_THROTTLE_THERMAL = 1, SIM_THROTTLE_POWER = 2, SIM_THROTTLE_HW_SLOWDOWN = 4 };

struct sim_bus_id {
    uint64_t domain, bus, device;
};

struct sim_process {
    uint64_t pid, memory_mib;
};

/* Every number is a uint64_t so that one table of keys can fill them all. */
struct sim_gpu {
    char name[96], uuid[80], serial[30], vbios[32];
    struct sim_bus_id pci_bus_id;
    uint64_t minor, architecture, compute_capability; /* 9.0 is 9000 */
    uint64_t pci_device_id, pci_subsystem_id;
    uint64_t memory_mib, memory_reserved_mib, memory_used_mib, bar1_mib, memory_bus_bits;
    uint64_t numa_node;
    uint64_t cpu_affinity[SIM_MAX_CPUS / 64];
    uint64_t pcie_gen, pcie_gen_max, pcie_width, pcie_width_max;
    uint64_t pcie_tx_kbps, pcie_rx_kbps, pcie_replays;
    uint64_t nvlinks, nvlinks_down; /* nvlinks_down is a bit mask */
    uint64_t nvlink_version, nvlink_mbps, nvlink_tx_kib, nvlink_rx_kib;
    uint64_t nvlink_crc_errors, nvlink_replays;
    uint64_t utilization_gpu, utilization_memory, temperature, memory_temperature;
    uint64_t power_mw, power_limit_mw, power_limit_min_mw, power_limit_max_mw;
    uint64_t sm_clock_mhz, sm_clock_max_mhz, memory_clock_mhz, memory_clock_max_mhz;
    uint64_t video_clock_mhz, video_clock_max_mhz, performance_state;
    uint64_t persistence, compute_mode, ecc;
    uint64_t ecc_corrected, ecc_uncorrectable, ecc_corrected_aggregate, ecc_uncorrectable_aggregate;
    uint64_t remapped_correctable, remapped_uncorrectable, remap_pending, remap_failed;
    uint64_t fault, throttle;
    uint64_t xids[SIM_MAX_XIDS], xid_count;
    struct sim_process processes[SIM_MAX_PROCESSES];
    uint64_t process_count;
};

struct sim_system {
    char node[64], driver[80], nvml[80];
    uint64_t cuda; /* 13.0 is 13000 */
    uint64_t version, gpu_count, fabric, fabric_clique, switch_count;
    struct sim_gpu gpus[SIM_MAX_GPUS];
    struct sim_bus_id switches[SIM_MAX_SWITCHES];
    /* Of each pair: the PCIe level (0 = not given: derived from the NUMA nodes), direct NVLinks. */
    uint8_t path[SIM_MAX_GPUS][SIM_MAX_GPUS];
    uint8_t direct_nvlinks[SIM_MAX_GPUS][SIM_MAX_GPUS];
};

struct sim_error {
    unsigned line; /* 0: the fault is not of one line */
    char text[256];
};

/* Parses `length` bytes of `text` into `system`; false with `error` filled when malformed. */
bool sim_parse(const char *text, size_t length, struct sim_system *system, struct sim_error *error);

/* Fills `error` and returns false, so that a caller can `return sim_fail(...)`. */
__attribute__((format(printf, 3, 4))) bool sim_fail(struct sim_error *error, unsigned line,
                                                    const char *format, ...);

/* DOMAIN:BUS:DEVICE.0 or BUS:DEVICE.0, hexadecimal. */
bool sim_parse_bus_id(const char *text, struct sim_bus_id *id);

#endif
