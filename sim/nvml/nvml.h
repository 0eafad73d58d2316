/* The part of the NVML interface that the simulated library answers.
 *
 * Numbers and layouts are those of the public bindings (nvidia-ml-py 13.615.71, read 2026-12-01);
 * tests/sim runs those bindings unchanged against this library.
 */
#ifndef GPUFLEET_NVML_H
#define GPUFLEET_NVML_H

#include <stdint.h>

#define NVML_API __attribute__((visibility("default")))

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
    NVML_ERROR_TIMEOUT = 10,
    NVML_ERROR_GPU_IS_LOST = 15,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_INSUFFICIENT_RESOURCES = 23,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlEventSet_st *nvmlEventSet_t;

enum { NVML_BRAND_NVIDIA = 14 };
enum { NVML_BUS_TYPE_PCIE = 2 };
enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_FEATURE_DISABLED = 0, NVML_FEATURE_ENABLED = 1 };
enum { NVML_SINGLE_BIT_ECC = 0, NVML_DOUBLE_BIT_ECC = 1 };
enum { NVML_VOLATILE_ECC = 0, NVML_AGGREGATE_ECC = 1 };
enum { NVML_MEMORY_LOCATION_DRAM = 2, NVML_MEMORY_LOCATION_COUNT = 8 };
enum { NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO, NVML_CLOCK_COUNT };
enum { NVML_CLOCK_ID_CURRENT = 0, NVML_CLOCK_ID_COUNT = 4 };
enum { NVML_PCIE_UTIL_TX_BYTES = 0, NVML_PCIE_UTIL_RX_BYTES = 1 };
enum { NVML_AFFINITY_SCOPE_NODE = 0, NVML_AFFINITY_SCOPE_SOCKET = 1 };

typedef enum {
    NVML_TOPOLOGY_INTERNAL = 0,
    NVML_TOPOLOGY_SINGLE = 10,
    NVML_TOPOLOGY_MULTIPLE = 20,
    NVML_TOPOLOGY_HOSTBRIDGE = 30,
    NVML_TOPOLOGY_NODE = 40,
    NVML_TOPOLOGY_SYSTEM = 50,
} nvmlGpuTopologyLevel_t;

enum { NVML_P2P_CAPS_INDEX_NVLINK = 2, NVML_P2P_CAPS_INDEX_UNKNOWN = 5 };
enum {
    NVML_P2P_STATUS_OK = 0,
    NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED = 1,
    NVML_P2P_STATUS_NOT_SUPPORTED = 5,
};

enum { NVML_NVLINK_MAX_LINKS = 36, NVML_NVLINK_ERROR_COUNT = 5 };
enum { NVML_NVLINK_ERROR_DL_REPLAY = 0, NVML_NVLINK_ERROR_DL_CRC_FLIT = 2 };
enum { NVML_NVLINK_CAP_P2P_SUPPORTED = 0, NVML_NVLINK_CAP_P2P_ATOMICS = 2 };
enum { NVML_NVLINK_CAP_VALID = 5, NVML_NVLINK_CAP_COUNT = 6 };
enum { NVML_NVLINK_DEVICE_TYPE_GPU = 0, NVML_NVLINK_DEVICE_TYPE_SWITCH = 2 };

enum {
    NVML_REASON_GPU_IDLE = 0x1,
    NVML_REASON_SW_POWER_CAP = 0x4,
    NVML_REASON_HW_SLOWDOWN = 0x8,
    NVML_REASON_SW_THERMAL_SLOWDOWN = 0x20,
    NVML_REASON_HW_THERMAL_SLOWDOWN = 0x40,
};

enum { NVML_EVENT_SBE = 0x1, NVML_EVENT_DBE = 0x2, NVML_EVENT_XID = 0x8 };

typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    char busId[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    unsigned int reserved[4];
} nvmlPciInfo_v2_t;

typedef struct {
    unsigned int version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
    char busId[32];
} nvmlPciInfoExt_v1_t;

typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
    unsigned int version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int version;
    unsigned int sensorType;
    int temperature;
} nvmlTemperature_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
    unsigned int pid;
    unsigned long long usedGpuMemory;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
} nvmlEventData_v1_t;

typedef struct {
    nvmlDevice_t device;
    unsigned long long eventType, eventData;
    unsigned int gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

enum { NVML_VALUE_UNSIGNED_INT = 1, NVML_VALUE_UNSIGNED_LONG_LONG = 3 };

typedef union {
    double dVal;
    unsigned int uiVal;
    unsigned long long ullVal;
} nvmlValue_t;

typedef struct {
    unsigned int fieldId, scopeId;
    long long timestamp, latencyUsec;
    int valueType;
    nvmlReturn_t nvmlReturn;
    nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned int state; /* one byte and padding to C callers, four bytes to the bindings */
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned int version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned int state; /* one byte and padding to C callers, four bytes to the bindings */
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    nvmlGpuFabricInfo_v2_t v2;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
    unsigned int version, type;
    union {
        char text[41];
        unsigned char bytes[16];
    } value;
} nvmlUUID_t;

/* A versioned structure carries its size in the low 24 bits and its version in the high 8. */
#define NVML_STRUCT_VERSION(type, version) ((unsigned int)(sizeof(type) | ((unsigned)(version) << 24)))

#endif
