#include "conf_keys.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct choice {
    const char *name;
    uint64_t value;
};

static bool refuse(struct sim_error *error, const struct sim_key *key, const char *value,
                   const char *allowed)
{
    return sim_fail(error, 0, "%s = %.60s: expected %s", key->name, value, allowed);
}

static bool parse_number(const char *text, int base, uint64_t *number)
{
    if (!isxdigit((unsigned char)*text))
        return false;
    char *end = NULL;
    unsigned long long parsed = strtoull(text, &end, base);
    if (*end != '\0' || strlen(text) > 19)
        return false;
    *number = parsed;
    return true;
}

static uint64_t *field(const struct sim_key *key, void *target)
{
    return (uint64_t *)((char *)target + key->offset);
}

static bool read_text(const struct sim_key *key, const char *value, void *target,
                      struct sim_error *error)
{
    size_t length = strlen(value);
    if (length == 0 || length >= key->limit)
        return sim_fail(error, 0, "%s: expected 1 to %u characters, seen %zu", key->name,
                        (unsigned)key->limit - 1, length);
    memcpy((char *)target + key->offset, value, length + 1);
    return true;
}

/* Whoever reads a product name must be told that nothing here is hardware. */
static bool read_product(const struct sim_key *key, const char *value, void *target,
                       struct sim_error *error)
{
    if (strstr(value, "simulated") == NULL)
        return refuse(error, key, value, "a product name that contains the word simulated");
    return read_text(key, value, target, error);
}

static bool read_uuid(const struct sim_key *key, const char *value, void *target,
                      struct sim_error *error)
{
    static const char shape[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    bool fits = strlen(value) == sizeof(shape) - 1;
    for (size_t i = 0; fits && shape[i] != '\0'; i++)
        fits = shape[i] == 'x' ? isxdigit((unsigned char)value[i]) != 0 : value[i] == shape[i];
    if (!fits)
        return refuse(error, key, value, shape);
    return read_text(key, value, target, error);
}

static bool read_number(const struct sim_key *key, const char *value, void *target,
                        struct sim_error *error)
{
    uint64_t number;
    if (!parse_number(value, 10, &number) || number > key->limit)
        return sim_fail(error, 0, "%s = %.60s: expected a whole number from 0 to %llu", key->name,
                        value, (unsigned long long)key->limit);
    *field(key, target) = number;
    return true;
}

static bool read_hex(const struct sim_key *key, const char *value, void *target,
                     struct sim_error *error)
{
    uint64_t number;
    if (strncmp(value, "0x", 2) != 0 || !parse_number(value + 2, 16, &number) ||
        number > key->limit)
        return refuse(error, key, value, "a hexadecimal number such as 0x233510DE");
    *field(key, target) = number;
    return true;
}

/* WHOLE or WHOLE.FRACTION with up to three decimals, kept as thousandths. */
static bool read_thousandths(const struct sim_key *key, const char *value, void *target,
                             struct sim_error *error)
{
    char whole[6];
    const char *point = strchr(value, '.');
    size_t digits = point ? (size_t)(point - value) : strlen(value);
    size_t decimals = point ? strlen(point + 1) : 0;
    uint64_t number, fraction = 0;
    bool fits = digits > 0 && digits < sizeof(whole) && decimals <= 3 && (!point || decimals > 0);
    if (fits) {
        memcpy(whole, value, digits);
        whole[digits] = '\0';
        fits = parse_number(whole, 10, &number) && number <= key->limit / 1000;
    }
    if (fits && point)
        fits = parse_number(point + 1, 10, &fraction);
    if (!fits)
        return refuse(error, key, value, "a number with at most three decimals, such as 76.5");
    for (; point && decimals < 3; decimals++)
        fraction *= 10;
    *field(key, target) = number * 1000 + fraction;
    return true;
}

/* MAJOR.MINOR, kept as MAJOR * 1000 + MINOR * 10 as CUDA's own version numbers are. */
static bool read_version(const struct sim_key *key, const char *value, void *target,
                         struct sim_error *error)
{
    uint64_t major, minor;
    const char *point = strchr(value, '.');
    bool fits = point && point - value >= 1 && point - value <= 2;
    if (fits) {
        char head[4] = {0};
        memcpy(head, value, (size_t)(point - value));
        fits = strlen(point + 1) == 1 && parse_number(head, 10, &major) &&
               parse_number(point + 1, 10, &minor);
    }
    if (!fits)
        return refuse(error, key, value, "MAJOR.MINOR such as 9.0");
    *field(key, target) = major * 1000 + minor * 10;
    return true;
}

static bool read_bus_id(const struct sim_key *key, const char *value, void *target,
                        struct sim_error *error)
{
    struct sim_bus_id *id = (struct sim_bus_id *)(void *)((char *)target + key->offset);
    if (!sim_parse_bus_id(value, id))
        return refuse(error, key, value, "a PCI bus id such as 00000000:1B:00.0");
    return true;
}

/* Sets the bits named by a list such as 0-3,8 in `words` 64-bit words. */
static bool parse_set(const char *value, uint64_t *bits, unsigned size)
{
    const char *at = value;
    do {
        char *end = NULL;
        if (!isdigit((unsigned char)*at))
            return false;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-') {
            if (!isdigit((unsigned char)end[1]))
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (first > last || last >= size)
            return false;
        for (unsigned long bit = first; bit <= last; bit++)
            bits[bit / 64] |= UINT64_C(1) << (bit % 64);
        at = end;
    } while (*at++ == ',');
    return at[-1] == '\0';
}

static bool read_set(const struct sim_key *key, const char *value, void *target,
                     struct sim_error *error)
{
    uint64_t *bits = field(key, target);
    memset(bits, 0, (key->limit + 63) / 64 * sizeof(*bits));
    if (!parse_set(value, bits, (unsigned)key->limit))
        return sim_fail(error, 0, "%s = %.60s: expected numbers and ranges below %u such as 0-3,8",
                        key->name, value, (unsigned)key->limit);
    return true;
}

static bool read_choice(const struct sim_key *key, const char *value, void *target,
                        struct sim_error *error, const struct choice *choices)
{
    char allowed[160] = "one of";
    for (const struct choice *choice = choices; choice->name; choice++) {
        if (strcmp(choice->name, value) == 0) {
            *field(key, target) = choice->value;
            return true;
        }
        strncat(allowed, " ", sizeof(allowed) - strlen(allowed) - 1);
        strncat(allowed, choice->name, sizeof(allowed) - strlen(allowed) - 1);
    }
    return refuse(error, key, value, allowed);
}

#define CHOICE_READER(function, ...)                                                          \
    static bool function(const struct sim_key *key, const char *value, void *target,          \
                         struct sim_error *error)                                             \
    {                                                                                         \
        static const struct choice choices[] = {__VA_ARGS__, {NULL, 0}};                      \
        return read_choice(key, value, target, error, choices);                               \
    }

CHOICE_READER(read_switch, {"off", 0}, {"on", 1})
CHOICE_READER(read_fault, {"none", SIM_FAULT_NONE}, {"lost", SIM_FAULT_LOST},
              {"hang", SIM_FAULT_HANG})
CHOICE_READER(read_compute_mode, {"default", 0}, {"prohibited", 2}, {"exclusive_process", 3})
CHOICE_READER(read_fabric, {"not_supported", 0}, {"not_started", 1}, {"in_progress", 2},
              {"completed", 3})
CHOICE_READER(read_path, {"internal", 1}, {"single", 10}, {"multiple", 20}, {"hostbridge", 30},
              {"node", 40}, {"system", 50})
CHOICE_READER(read_architecture, {"volta", 5}, {"turing", 6}, {"ampere", 7}, {"ada", 8},
              {"hopper", 9}, {"blackwell", 10})
CHOICE_READER(read_throttle_reason, {"none", 0}, {"thermal", SIM_THROTTLE_THERMAL},
              {"power", SIM_THROTTLE_POWER}, {"hw_slowdown", SIM_THROTTLE_HW_SLOWDOWN})
CHOICE_READER(read_nvlink_version, {"1.0", 1}, {"2.0", 2}, {"2.2", 3}, {"3.0", 4}, {"3.1", 5},
              {"4.0", 6}, {"5.0", 7}, {"6.0", 8})

/* One reason or several with commas between them. */
static bool read_throttle(const struct sim_key *key, const char *value, void *target,
                          struct sim_error *error)
{
    char list[64];
    uint64_t reasons = 0;
    if (strlen(value) >= sizeof(list))
        return refuse(error, key, value, "a shorter list");
    strcpy(list, value);
    for (char *at = list, *next; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        if (!read_throttle_reason(key, at, target, error))
            return false;
        reasons |= *field(key, target);
    }
    *field(key, target) = reasons;
    return true;
}

static bool read_xid(const struct sim_key *key, const char *value, void *target,
                     struct sim_error *error)
{
    struct sim_gpu *gpu = target;
    uint64_t number;
    if (!parse_number(value, 10, &number) || number == 0 || number > key->limit)
        return refuse(error, key, value, "an Xid number such as 79");
    if (gpu->xid_count == SIM_MAX_XIDS)
        return refuse(error, key, value, "at most 32 lines of this key");
    gpu->xids[gpu->xid_count++] = number;
    return true;
}

static bool read_process(const struct sim_key *key, const char *value, void *target,
                         struct sim_error *error)
{
    struct sim_gpu *gpu = target;
    char pid[20];
    const char *colon = strchr(value, ':');
    struct sim_process process;
    bool fits = colon && (size_t)(colon - value) < sizeof(pid);
    if (fits) {
        memcpy(pid, value, (size_t)(colon - value));
        pid[colon - value] = '\0';
        fits = parse_number(pid, 10, &process.pid) && process.pid > 0 && process.pid <= INT32_MAX &&
               parse_number(colon + 1, 10, &process.memory_mib) && process.memory_mib <= key->limit;
    }
    if (!fits)
        return refuse(error, key, value, "PID:MEMORY_MIB such as 4242:1024");
    if (gpu->process_count == SIM_MAX_PROCESSES)
        return refuse(error, key, value, "at most 64 lines of this key");
    gpu->processes[gpu->process_count++] = process;
    return true;
}

enum { MAX_MIB = 1 << 24, MAX_COUNT = INT32_MAX };

#define GPU(key, reader, limit) {#key, reader, offsetof(struct sim_gpu, key), limit, false}
#define GPU_TEXT(key, reader) GPU(key, reader, sizeof(((struct sim_gpu *)NULL)->key))
#define GPU_COUNT(key) GPU(key, read_number, MAX_COUNT)
#define GPU_SWITCH(key) GPU(key, read_switch, 1)
#define GPU_WATTS(name, key) {name, read_thousandths, offsetof(struct sim_gpu, key), 10000000, false}

static const struct sim_key gpu_keys[] = {
    GPU_TEXT(name, read_product),
    GPU_TEXT(uuid, read_uuid),
    GPU_TEXT(serial, read_text),
    GPU_TEXT(vbios, read_text),
    GPU(pci_bus_id, read_bus_id, 0),
    GPU(minor, read_number, 255),
    GPU(architecture, read_architecture, 0),
    GPU(compute_capability, read_version, 0),
    GPU(pci_device_id, read_hex, UINT32_MAX),
    GPU(pci_subsystem_id, read_hex, UINT32_MAX),
    GPU(memory_mib, read_number, MAX_MIB),
    GPU(memory_reserved_mib, read_number, MAX_MIB),
    GPU(memory_used_mib, read_number, MAX_MIB),
    GPU(bar1_mib, read_number, MAX_MIB),
    GPU(memory_bus_bits, read_number, 65536),
    GPU(numa_node, read_number, 63),
    GPU(cpu_affinity, read_set, SIM_MAX_CPUS),
    GPU(pcie_gen, read_number, 7),
    GPU(pcie_gen_max, read_number, 7),
    GPU(pcie_width, read_number, 32),
    GPU(pcie_width_max, read_number, 32),
    GPU_COUNT(pcie_tx_kbps),
    GPU_COUNT(pcie_rx_kbps),
    GPU_COUNT(pcie_replays),
    GPU(nvlinks, read_number, 36),
    GPU(nvlinks_down, read_set, 36),
    GPU(nvlink_version, read_nvlink_version, 0),
    GPU_COUNT(nvlink_mbps),
    GPU(nvlink_tx_kib, read_number, INT64_MAX / (64 * 1024)),
    GPU(nvlink_rx_kib, read_number, INT64_MAX / (64 * 1024)),
    GPU_COUNT(nvlink_crc_errors),
    GPU_COUNT(nvlink_replays),
    GPU(utilization_gpu, read_number, 100),
    GPU(utilization_memory, read_number, 100),
    GPU(temperature, read_number, 200),
    GPU(memory_temperature, read_number, 200),
    GPU_WATTS("power_w", power_mw),
    GPU_WATTS("power_limit_w", power_limit_mw),
    GPU_WATTS("power_limit_min_w", power_limit_min_mw),
    GPU_WATTS("power_limit_max_w", power_limit_max_mw),
    GPU(sm_clock_mhz, read_number, 10000),
    GPU(sm_clock_max_mhz, read_number, 10000),
    GPU(memory_clock_mhz, read_number, 50000),
    GPU(memory_clock_max_mhz, read_number, 50000),
    GPU(video_clock_mhz, read_number, 10000),
    GPU(video_clock_max_mhz, read_number, 10000),
    GPU(performance_state, read_number, 15),
    GPU_SWITCH(persistence),
    GPU(compute_mode, read_compute_mode, 0),
    GPU_SWITCH(ecc),
    GPU_COUNT(ecc_corrected),
    GPU_COUNT(ecc_uncorrectable),
    GPU_COUNT(ecc_corrected_aggregate),
    GPU_COUNT(ecc_uncorrectable_aggregate),
    GPU_COUNT(remapped_correctable),
    GPU_COUNT(remapped_uncorrectable),
    GPU_SWITCH(remap_pending),
    GPU_SWITCH(remap_failed),
    GPU(fault, read_fault, 0),
    GPU(throttle, read_throttle, 0),
    {"xid", read_xid, 0, 999, true},
    {"process", read_process, 0, MAX_MIB, true},
    {NULL, NULL, 0, 0, false},
};

#define SYSTEM(key, reader, limit) {#key, reader, offsetof(struct sim_system, key), limit, false}
#define SYSTEM_TEXT(key) SYSTEM(key, read_text, sizeof(((struct sim_system *)NULL)->key))

static const struct sim_key system_keys[] = {
    SYSTEM(version, read_number, UINT32_MAX),
    {"gpus", read_number, offsetof(struct sim_system, gpu_count), SIM_MAX_GPUS, false},
    SYSTEM_TEXT(node),
    SYSTEM_TEXT(driver),
    SYSTEM_TEXT(nvml),
    SYSTEM(cuda, read_version, 0),
    SYSTEM(fabric, read_fabric, 0),
    SYSTEM(fabric_clique, read_number, UINT32_MAX),
    {NULL, NULL, 0, 0, false},
};

static const struct sim_key switch_keys[] = {
    {"pci_bus_id", read_bus_id, 0, 0, false},
    {NULL, NULL, 0, 0, false},
};

static const struct sim_key link_keys[] = {
    {"path", read_path, offsetof(struct sim_link, path), 0, false},
    {"nvlinks", read_number, offsetof(struct sim_link, nvlinks), 36, false},
    {NULL, NULL, 0, 0, false},
};

const struct sim_key *sim_keys(enum sim_section section)
{
    static const struct sim_key *const keys[] = {
        [SIM_SECTION_SYSTEM] = system_keys,
        [SIM_SECTION_GPU] = gpu_keys,
        [SIM_SECTION_SWITCH] = switch_keys,
        [SIM_SECTION_LINK] = link_keys,
    };
    return keys[section];
}
