/* Queries by field number, many at a time. */
#include <time.h>

#include "getters.h"
#include "health.h"
#include "topology.h"

/* Numbers as the public bindings give them. */
enum field {
    FIELD_ECC_CURRENT = 1,
    FIELD_ECC_PENDING = 2,
    FIELD_ECC_SBE_VOLATILE = 3,
    FIELD_ECC_DBE_VOLATILE = 4,
    FIELD_ECC_SBE_AGGREGATE = 5,
    FIELD_ECC_DBE_AGGREGATE = 6,
    FIELD_ECC_SBE_VOLATILE_DEVICE = 11,
    FIELD_ECC_DBE_VOLATILE_DEVICE = 12,
    FIELD_ECC_SBE_AGGREGATE_DEVICE = 22,
    FIELD_ECC_DBE_AGGREGATE_DEVICE = 23,
    FIELD_NVLINK_CRC_FLIT_TOTAL = 38,
    FIELD_NVLINK_REPLAY_TOTAL = 52,
    FIELD_MEMORY_TEMPERATURE = 82,
    FIELD_NVLINK_MBPS_COMMON = 90,
    FIELD_NVLINK_COUNT = 91,
    FIELD_PCIE_REPLAYS = 94,
    FIELD_NVLINK_DATA_TX_KIB = 138,
    FIELD_NVLINK_DATA_RX_KIB = 139,
    FIELD_NVLINK_RAW_TX_KIB = 140,
    FIELD_NVLINK_RAW_RX_KIB = 141,
    FIELD_REMAPPED_CORRECTABLE = 142,
    FIELD_REMAPPED_UNCORRECTABLE = 143,
    FIELD_REMAP_PENDING = 144,
    FIELD_REMAP_FAILED = 145,
    FIELD_NVLINK_REPLAYS = 161,
    FIELD_NVLINK_CRC_ERRORS = 163,
    FIELD_NVLINK_SPEED = 164,
    FIELD_NVLINK_STATE = 165,
    FIELD_NVLINK_VERSION = 166,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186,
    FIELD_POWER_LIMIT_MIN = 187,
    FIELD_POWER_LIMIT_MAX = 188,
    FIELD_POWER_LIMIT_DEFAULT = 189,
    FIELD_POWER_LIMIT_CURRENT = 190,
    FIELD_POWER_LIMIT_REQUESTED = 192,
    FIELD_NVLINK_XMIT_BYTES = 202,
    FIELD_NVLINK_RCV_BYTES = 204,
};

struct answer {
    uint64_t value;
    bool wide; /* 64 bits */
};

static nvmlReturn_t answer_int(struct answer *answer, uint64_t value)
{
    *answer = (struct answer){value, false};
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_wide(struct answer *answer, uint64_t value)
{
    *answer = (struct answer){value, true};
    return NVML_SUCCESS;
}

/* A value of one NVLink (the scope), or of all active ones where the scope is UINT_MAX. */
static nvmlReturn_t answer_link(const struct sim_view *view, unsigned scope, uint64_t of_one,
                                struct answer *answer)
{
    struct sim_link_end end;
    if (view->gpu->nvlinks == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    if (scope == UINT32_MAX)
        return answer_wide(answer, of_one * sim_active_nvlinks(view->system, view->index));
    if (scope >= view->gpu->nvlinks)
        return NVML_ERROR_INVALID_ARGUMENT;
    return answer_wide(answer,
                       sim_link_end(view->system, view->index, scope, &end) ? of_one : 0);
}

static nvmlReturn_t answer_nvlink(const struct sim_view *view, unsigned field, unsigned scope,
                                  struct answer *answer)
{
    const struct sim_gpu *gpu = view->gpu;
    struct sim_link_end end;
    switch (field) {
    case FIELD_NVLINK_DATA_TX_KIB:
    case FIELD_NVLINK_RAW_TX_KIB: return answer_link(view, scope, gpu->nvlink_tx_kib, answer);
    case FIELD_NVLINK_DATA_RX_KIB:
    case FIELD_NVLINK_RAW_RX_KIB: return answer_link(view, scope, gpu->nvlink_rx_kib, answer);
    case FIELD_NVLINK_XMIT_BYTES: return answer_link(view, scope, gpu->nvlink_tx_kib << 10, answer);
    case FIELD_NVLINK_RCV_BYTES: return answer_link(view, scope, gpu->nvlink_rx_kib << 10, answer);
    case FIELD_NVLINK_REPLAYS: return answer_link(view, scope, gpu->nvlink_replays, answer);
    case FIELD_NVLINK_CRC_ERRORS: return answer_link(view, scope, gpu->nvlink_crc_errors, answer);
    case FIELD_NVLINK_REPLAY_TOTAL:
        return answer_link(view, UINT32_MAX, gpu->nvlink_replays, answer);
    case FIELD_NVLINK_CRC_FLIT_TOTAL:
        return answer_link(view, UINT32_MAX, gpu->nvlink_crc_errors, answer);
    default: break;
    }
    if (gpu->nvlinks == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (field) {
    case FIELD_NVLINK_COUNT: return answer_int(answer, gpu->nvlinks);
    case FIELD_NVLINK_MBPS_COMMON: return answer_int(answer, gpu->nvlink_mbps);
    case FIELD_NVLINK_STATE:
    case FIELD_NVLINK_SPEED:
    case FIELD_NVLINK_VERSION: break;
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
    if (scope >= gpu->nvlinks)
        return NVML_ERROR_INVALID_ARGUMENT;
    bool up = sim_link_end(view->system, view->index, scope, &end);
    switch (field) {
    case FIELD_NVLINK_STATE: return answer_int(answer, up);
    case FIELD_NVLINK_SPEED: return answer_int(answer, up ? gpu->nvlink_mbps : 0);
    default: return answer_int(answer, up ? gpu->nvlink_version : 0);
    }
}

static nvmlReturn_t answer_ecc(const struct sim_gpu *gpu, bool uncorrectable, bool aggregate,
                               struct answer *answer)
{
    if (!gpu->ecc)
        return NVML_ERROR_NOT_SUPPORTED;
    return answer_wide(answer, sim_ecc_errors(gpu, uncorrectable, aggregate));
}

static nvmlReturn_t answer_field(const struct sim_view *view, unsigned field, unsigned scope,
                                 struct answer *answer)
{
    const struct sim_gpu *gpu = view->gpu;
    switch (field) {
    case FIELD_ECC_CURRENT:
    case FIELD_ECC_PENDING: return answer_int(answer, gpu->ecc);
    case FIELD_ECC_SBE_VOLATILE:
    case FIELD_ECC_SBE_VOLATILE_DEVICE: return answer_ecc(gpu, false, false, answer);
    case FIELD_ECC_DBE_VOLATILE:
    case FIELD_ECC_DBE_VOLATILE_DEVICE: return answer_ecc(gpu, true, false, answer);
    case FIELD_ECC_SBE_AGGREGATE:
    case FIELD_ECC_SBE_AGGREGATE_DEVICE: return answer_ecc(gpu, false, true, answer);
    case FIELD_ECC_DBE_AGGREGATE:
    case FIELD_ECC_DBE_AGGREGATE_DEVICE: return answer_ecc(gpu, true, true, answer);
    case FIELD_MEMORY_TEMPERATURE: return answer_int(answer, gpu->memory_temperature);
    case FIELD_PCIE_REPLAYS: return answer_int(answer, gpu->pcie_replays);
    case FIELD_REMAPPED_CORRECTABLE: return answer_int(answer, gpu->remapped_correctable);
    case FIELD_REMAPPED_UNCORRECTABLE: return answer_int(answer, gpu->remapped_uncorrectable);
    case FIELD_REMAP_PENDING: return answer_int(answer, gpu->remap_pending);
    case FIELD_REMAP_FAILED: return answer_int(answer, gpu->remap_failed);
    case FIELD_POWER_AVERAGE:
    case FIELD_POWER_INSTANT: return answer_int(answer, gpu->power_mw);
    case FIELD_POWER_LIMIT_MIN: return answer_int(answer, gpu->power_limit_min_mw);
    case FIELD_POWER_LIMIT_MAX:
    case FIELD_POWER_LIMIT_DEFAULT: return answer_int(answer, gpu->power_limit_max_mw);
    case FIELD_POWER_LIMIT_CURRENT:
    case FIELD_POWER_LIMIT_REQUESTED: return answer_int(answer, gpu->power_limit_mw);
    default: return answer_nvlink(view, field, scope, answer);
    }
}

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

NVML_API nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                               nvmlFieldValue_t *values)
{
    SIM_DEVICE(view, device);
    if (count <= 0 || !values)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        struct answer answer = {0, false};
        values[i].nvmlReturn = answer_field(&view, values[i].fieldId, values[i].scopeId, &answer);
        values[i].timestamp = now_us();
        values[i].latencyUsec = 0;
        values[i].valueType = answer.wide ? NVML_VALUE_UNSIGNED_LONG_LONG : NVML_VALUE_UNSIGNED_INT;
        values[i].value.ullVal = answer.value; /* a narrow value reads the same in its low half */
    }
    return NVML_SUCCESS;
}
