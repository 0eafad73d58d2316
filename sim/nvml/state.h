/* What the library holds between calls: who initialised it, the description in force, handles. */
#ifndef GPUFLEET_STATE_H
#define GPUFLEET_STATE_H

#include "conf.h"
#include "nvml.h"

struct sim_snapshot;

/* The description that one call works on: it stays as it is until sim_close, whatever is edited. */
struct sim_view {
    struct sim_snapshot *snapshot;
    const struct sim_system *system;
    const struct sim_gpu *gpu; /* NULL when the call is not about one GPU */
    unsigned index;
};

nvmlReturn_t sim_init(void);
nvmlReturn_t sim_shutdown(void);

/* Opens the description as it is on disk now. */
nvmlReturn_t sim_open(struct sim_view *view);

/* Same for one GPU: GPU_IS_LOST when it is lost; waits as long as it hangs. */
nvmlReturn_t sim_open_device(struct sim_view *view, nvmlDevice_t device);

void sim_close(struct sim_view *view);

nvmlDevice_t sim_handle(unsigned index);

/* False when `device` is no handle of this library. */
bool sim_handle_index(nvmlDevice_t device, unsigned *index);

/* Milliseconds between two looks at the description of a call that waits for an edit. */
enum { SIM_LOOK_EVERY_MS = 20 };

/* Sleeps until the next look, at most `limit_ms`. */
void sim_wait_for_edit(unsigned limit_ms);

/* Copies `text` with its end into `size` bytes. */
nvmlReturn_t sim_copy_text(char *target, unsigned size, const char *text);

#define SIM_CONCATENATE(a, b) a##b
#define SIM_OPENED(line) SIM_CONCATENATE(opened_, line)

/* Declares `view` and opens it, returning from the function on error; closed at the scope's end. */
#define SIM_VIEW(view)                                                                        \
    __attribute__((cleanup(sim_close))) struct sim_view view = {0};                           \
    nvmlReturn_t SIM_OPENED(__LINE__) = sim_open(&view);                                      \
    if (SIM_OPENED(__LINE__) != NVML_SUCCESS)                                                 \
    return SIM_OPENED(__LINE__)

#define SIM_DEVICE(view, device)                                                              \
    __attribute__((cleanup(sim_close))) struct sim_view view = {0};                           \
    nvmlReturn_t SIM_OPENED(__LINE__) = sim_open_device(&view, device);                       \
    if (SIM_OPENED(__LINE__) != NVML_SUCCESS)                                                 \
    return SIM_OPENED(__LINE__)

#endif
