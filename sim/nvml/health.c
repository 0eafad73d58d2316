/* How a GPU is doing: load, temperature, power, clocks, memory errors, PCIe. */
#include "health.h"

#include <string.h>

#include "getters.h"

uint64_t sim_sm_clock_mhz(const struct sim_gpu *gpu)
{
    uint64_t slowed = gpu->sm_clock_max_mhz / 2;
    return gpu->throttle && gpu->sm_clock_mhz > slowed ? slowed : gpu->sm_clock_mhz;
}

uint64_t sim_ecc_errors(const struct sim_gpu *gpu, bool uncorrectable, bool aggregate)
{
    uint64_t now = uncorrectable ? gpu->ecc_uncorrectable : gpu->ecc_corrected;
    uint64_t ever = uncorrectable ? gpu->ecc_uncorrectable_aggregate : gpu->ecc_corrected_aggregate;
    return aggregate && ever > now ? ever : now;
}

uint64_t sim_clock_reasons(const struct sim_gpu *gpu)
{
    uint64_t reasons = 0;
    if (gpu->throttle & SIM_THROTTLE_THERMAL)
        reasons |= NVML_REASON_SW_THERMAL_SLOWDOWN;
    if (gpu->throttle & SIM_THROTTLE_POWER)
        reasons |= NVML_REASON_SW_POWER_CAP;
    if (gpu->throttle & SIM_THROTTLE_HW_SLOWDOWN)
        reasons |= NVML_REASON_HW_SLOWDOWN | NVML_REASON_HW_THERMAL_SLOWDOWN;
    if (reasons == 0 && gpu->utilization_gpu == 0)
        reasons = NVML_REASON_GPU_IDLE;
    return reasons;
}

NVML_API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates)
{
    SIM_DEVICE(view, device);
    if (!rates)
        return NVML_ERROR_INVALID_ARGUMENT;
    rates->gpu = (unsigned)view.gpu->utilization_gpu;
    rates->memory = (unsigned)view.gpu->utilization_memory;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor,
                                               unsigned int *celsius)
{
    SIM_DEVICE(view, device);
    if (!celsius || sensor != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    *celsius = (unsigned)view.gpu->temperature;
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device,
                                                nvmlTemperature_v1_t *temperature)
{
    SIM_DEVICE(view, device);
    if (!temperature)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (temperature->version != NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (temperature->sensorType != NVML_TEMPERATURE_GPU)
        return NVML_ERROR_INVALID_ARGUMENT;
    temperature->temperature = (int)view.gpu->temperature;
    return NVML_SUCCESS;
}

SIM_GETTER(nvmlDeviceGetPowerUsage, unsigned int, gpu->power_mw)
SIM_OPTIONAL_GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned int, gpu->power_limit_mw)
SIM_OPTIONAL_GETTER(nvmlDeviceGetPowerManagementLimit, unsigned int, gpu->power_limit_mw)
SIM_OPTIONAL_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, gpu->power_limit_max_mw)
SIM_GETTER(nvmlDeviceGetPowerManagementMode, unsigned int, gpu->power_limit_mw != 0)

NVML_API nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device,
                                                                   unsigned int *least,
                                                                   unsigned int *most)
{
    SIM_DEVICE(view, device);
    if (!least || !most)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (view.gpu->power_limit_max_mw == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *least = (unsigned)view.gpu->power_limit_min_mw;
    *most = (unsigned)view.gpu->power_limit_max_mw;
    return NVML_SUCCESS;
}

SIM_GETTER(nvmlDeviceGetPerformanceState, unsigned int, gpu->performance_state)
SIM_GETTER(nvmlDeviceGetPowerState, unsigned int, gpu->performance_state)

SIM_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, sim_clock_reasons(gpu))
SIM_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, sim_clock_reasons(gpu))

#define ALL_REASONS                                                                           \
    (NVML_REASON_GPU_IDLE | NVML_REASON_SW_POWER_CAP | NVML_REASON_HW_SLOWDOWN |              \
     NVML_REASON_SW_THERMAL_SLOWDOWN | NVML_REASON_HW_THERMAL_SLOWDOWN)
SIM_GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, ALL_REASONS)
SIM_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, ALL_REASONS)

static nvmlReturn_t answer_clock(nvmlDevice_t device, unsigned type, bool most, unsigned *mhz)
{
    SIM_DEVICE(view, device);
    const struct sim_gpu *gpu = view.gpu;
    uint64_t now[] = {sim_sm_clock_mhz(gpu), sim_sm_clock_mhz(gpu), gpu->memory_clock_mhz,
                      gpu->video_clock_mhz};
    uint64_t limit[] = {gpu->sm_clock_max_mhz, gpu->sm_clock_max_mhz, gpu->memory_clock_max_mhz,
                        gpu->video_clock_max_mhz};
    if (!mhz || type >= NVML_CLOCK_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (limit[type] == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    *mhz = (unsigned)(most ? limit[type] : now[type]);
    return NVML_SUCCESS;
}

NVML_API nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type,
                                             unsigned int *mhz)
{
    return answer_clock(device, type, false, mhz);
}

/* No lower application clocks are set on a simulated GPU: its clocks may rise to their maximum. */
#define MAXIMUM_CLOCK(function)                                                               \
    NVML_API nvmlReturn_t function(nvmlDevice_t device, unsigned int type, unsigned int *mhz) \
    {                                                                                         \
        return answer_clock(device, type, true, mhz);                                         \
    }

MAXIMUM_CLOCK(nvmlDeviceGetMaxClockInfo)
MAXIMUM_CLOCK(nvmlDeviceGetApplicationsClock)
MAXIMUM_CLOCK(nvmlDeviceGetDefaultApplicationsClock)
MAXIMUM_CLOCK(nvmlDeviceGetMaxCustomerBoostClock)

NVML_API nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int type, unsigned int id,
                                         unsigned int *mhz)
{
    if (id >= NVML_CLOCK_ID_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return answer_clock(device, type, id != NVML_CLOCK_ID_CURRENT, mhz);
}

NVML_API nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *now,
                                           unsigned int *pending)
{
    SIM_DEVICE(view, device);
    if (!now || !pending)
        return NVML_ERROR_INVALID_ARGUMENT;
    *now = *pending = (unsigned)view.gpu->ecc;
    return NVML_SUCCESS;
}

SIM_GETTER(nvmlDeviceGetDefaultEccMode, unsigned int, NVML_FEATURE_ENABLED)

NVML_API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type,
                                                  unsigned int counter, unsigned long long *count)
{
    SIM_DEVICE(view, device);
    if (!count || type > NVML_DOUBLE_BIT_ECC || counter > NVML_AGGREGATE_ECC)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!view.gpu->ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = sim_ecc_errors(view.gpu, type == NVML_DOUBLE_BIT_ECC, counter == NVML_AGGREGATE_ECC);
    return NVML_SUCCESS;
}

/* All errors of a description are errors of the device memory. */
NVML_API nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int type,
                                                      unsigned int counter, unsigned int location,
                                                      unsigned long long *count)
{
    if (location >= NVML_MEMORY_LOCATION_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = nvmlDeviceGetTotalEccErrors(device, type, counter, count);
    if (result == NVML_SUCCESS && location != NVML_MEMORY_LOCATION_DRAM)
        *count = 0;
    return result;
}

NVML_API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                                unsigned int *uncorrected, unsigned int *pending,
                                                unsigned int *failed)
{
    SIM_DEVICE(view, device);
    if (!corrected || !uncorrected || !pending || !failed)
        return NVML_ERROR_INVALID_ARGUMENT;
    *corrected = (unsigned)view.gpu->remapped_correctable;
    *uncorrected = (unsigned)view.gpu->remapped_uncorrectable;
    *pending = (unsigned)view.gpu->remap_pending;
    *failed = (unsigned)view.gpu->remap_failed;
    return NVML_SUCCESS;
}

SIM_OPTIONAL_GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, gpu->pcie_gen)
SIM_OPTIONAL_GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, gpu->pcie_gen_max)
SIM_OPTIONAL_GETTER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, gpu->pcie_gen_max)
SIM_OPTIONAL_GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, gpu->pcie_width)
SIM_OPTIONAL_GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, gpu->pcie_width_max)
SIM_GETTER(nvmlDeviceGetPcieReplayCounter, unsigned int, gpu->pcie_replays)

NVML_API nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter,
                                                  unsigned int *kbps)
{
    SIM_DEVICE(view, device);
    if (!kbps || counter > NVML_PCIE_UTIL_RX_BYTES)
        return NVML_ERROR_INVALID_ARGUMENT;
    *kbps = (unsigned)(counter == NVML_PCIE_UTIL_TX_BYTES ? view.gpu->pcie_tx_kbps
                                                          : view.gpu->pcie_rx_kbps);
    return NVML_SUCCESS;
}
