/* Sets of events: an edit of the description becomes an event once. */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "getters.h"

enum { MAX_SETS = 64 };

/* What a set has seen of a GPU: the difference to the description is what it has yet to tell. */
struct watched {
    uint64_t types;
    uint64_t xids[SIM_MAX_XIDS], xid_count;
    uint64_t corrected, uncorrectable;
};

struct nvmlEventSet_st {
    bool in_use;
    struct watched gpus[SIM_MAX_GPUS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlEventSet_st sets[MAX_SETS];

/* With the lock held. */
static bool known(nvmlEventSet_t set)
{
    for (unsigned i = 0; i < MAX_SETS; i++)
        if (set == &sets[i])
            return set->in_use;
    return false;
}

NVML_API nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    SIM_VIEW(view);
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_RESOURCES;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < MAX_SETS && result != NVML_SUCCESS; i++) {
        if (sets[i].in_use)
            continue;
        memset(&sets[i], 0, sizeof(sets[i]));
        sets[i].in_use = true;
        *set = &sets[i];
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

NVML_API nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    SIM_VIEW(view);
    pthread_mutex_lock(&lock);
    nvmlReturn_t result = known(set) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        set->in_use = false;
    pthread_mutex_unlock(&lock);
    return result;
}

#define SUPPORTED_EVENTS (NVML_EVENT_SBE | NVML_EVENT_DBE | NVML_EVENT_XID)

SIM_GETTER(nvmlDeviceGetSupportedEventTypes, unsigned long long, SUPPORTED_EVENTS)

/* What stands in the description already is no event to the set. */
NVML_API nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                               nvmlEventSet_t set)
{
    SIM_DEVICE(view, device);
    if (types & ~(unsigned long long)SUPPORTED_EVENTS)
        return NVML_ERROR_NOT_SUPPORTED;
    nvmlReturn_t result = NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    if (known(set)) {
        struct watched *watched = &set->gpus[view.index];
        if (watched->types == 0) {
            memcpy(watched->xids, view.gpu->xids, sizeof(watched->xids));
            watched->xid_count = view.gpu->xid_count;
            watched->corrected = view.gpu->ecc_corrected;
            watched->uncorrectable = view.gpu->ecc_uncorrectable;
        }
        watched->types |= types;
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* The next Xid that `watched` has not told of: the lines of the description are a log, of which
 * the part that both have in common is old. 0 when there is none. */
static uint64_t next_xid(struct watched *watched, const struct sim_gpu *gpu)
{
    uint64_t common = 0;
    while (common < watched->xid_count && common < gpu->xid_count &&
           watched->xids[common] == gpu->xids[common])
        common++;
    watched->xid_count = common;
    if (common == gpu->xid_count)
        return 0;
    watched->xids[common] = gpu->xids[common];
    watched->xid_count = common + 1;
    return gpu->xids[common];
}

static bool rose(uint64_t *seen, uint64_t now)
{
    bool higher = now > *seen;
    *seen = now;
    return higher;
}

/* With the lock held: true when there is an event, which then counts as told. */
static bool next_event(nvmlEventSet_t set, const struct sim_system *system, nvmlEventData_t *data)
{
    for (unsigned i = 0; i < system->gpu_count; i++) {
        struct watched *watched = &set->gpus[i];
        const struct sim_gpu *gpu = &system->gpus[i];
        uint64_t type = 0, xid = 0;
        if (watched->types & NVML_EVENT_XID && (xid = next_xid(watched, gpu)) != 0)
            type = NVML_EVENT_XID;
        else if (watched->types & NVML_EVENT_DBE &&
                 rose(&watched->uncorrectable, gpu->ecc_uncorrectable))
            type = NVML_EVENT_DBE;
        else if (watched->types & NVML_EVENT_SBE && rose(&watched->corrected, gpu->ecc_corrected))
            type = NVML_EVENT_SBE;
        if (type == 0)
            continue;
        *data = (nvmlEventData_t){sim_handle(i), type, xid, UINT32_MAX, UINT32_MAX};
        return true;
    }
    return false;
}

static bool watches_a_lost_gpu(nvmlEventSet_t set, const struct sim_system *system)
{
    for (unsigned i = 0; i < system->gpu_count; i++)
        if (set->gpus[i].types && system->gpus[i].fault == SIM_FAULT_LOST)
            return true;
    return false;
}

static nvmlReturn_t look(nvmlEventSet_t set, nvmlEventData_t *data)
{
    SIM_VIEW(view);
    nvmlReturn_t result = NVML_ERROR_TIMEOUT;
    pthread_mutex_lock(&lock);
    if (!known(set))
        result = NVML_ERROR_INVALID_ARGUMENT;
    else if (next_event(set, view.system, data))
        result = NVML_SUCCESS;
    else if (watches_a_lost_gpu(set, view.system))
        result = NVML_ERROR_GPU_IS_LOST;
    pthread_mutex_unlock(&lock);
    return result;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

NVML_API nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                          unsigned int timeout_ms)
{
    if (!data)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t deadline = now_ms() + timeout_ms;
    for (;;) {
        nvmlReturn_t result = look(set, data);
        uint64_t now = now_ms();
        if (result != NVML_ERROR_TIMEOUT || now >= deadline)
            return result;
        uint64_t left = deadline - now;
        sim_wait_for_edit(left < SIM_LOOK_EVERY_MS ? (unsigned)left : SIM_LOOK_EVERY_MS);
    }
}

NVML_API nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data,
                                       unsigned int timeout_ms)
{
    nvmlEventData_t full;
    if (!data)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = nvmlEventSetWait_v2(set, &full, timeout_ms);
    if (result == NVML_SUCCESS)
        *data = (nvmlEventData_v1_t){full.device, full.eventType, full.eventData};
    return result;
}
