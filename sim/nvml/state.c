#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct sim_snapshot {
    unsigned references;
    struct sim_system system;
};

struct nvmlDevice_st {
    char unused;
};

/* Which file was read. A file younger than RACY_NS when read may change again without a change of
 * its times (they advance in steps of the kernel's tick), so such a stamp is never trusted. */
struct stamp {
    bool exists, settled;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified, changed;
};

enum { RACY_NS = 50 * 1000 * 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;
static bool have_stamp;
static struct stamp stamp;
static struct sim_snapshot *current; /* NULL: the file as it is cannot be used */
static char last_complaint[512];
static struct nvmlDevice_st handles[SIM_MAX_GPUS];

static const char *description_path(void)
{
    const char *path = getenv("GPUFLEET_SIMGPU_CONF");
    return path && *path ? path : "/etc/gpufleet/simgpu.conf";
}

static void complain(const char *path, const struct sim_error *error)
{
    char text[sizeof(last_complaint)];
    if (error->line > 0)
        snprintf(text, sizeof(text), "%.200s:%u: %s", path, error->line, error->text);
    else
        snprintf(text, sizeof(text), "%.200s: %s", path, error->text);
    if (strcmp(text, last_complaint) == 0)
        return;
    strcpy(last_complaint, text);
    fprintf(stderr, "gpufleet simulated GPUs: %s\n", text);
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static struct stamp stamp_of(const struct stat *status)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age = (int64_t)(now.tv_sec - status->st_mtim.tv_sec) * 1000000000 +
                  (now.tv_nsec - status->st_mtim.tv_nsec);
    return (struct stamp){
        .exists = true,
        .settled = age > RACY_NS,
        .device = status->st_dev,
        .inode = status->st_ino,
        .size = status->st_size,
        .modified = status->st_mtim,
        .changed = status->st_ctim,
    };
}

static bool unchanged(const struct stamp *now)
{
    if (!have_stamp || now->exists != stamp.exists)
        return false;
    if (!now->exists)
        return true;
    return stamp.settled && now->device == stamp.device && now->inode == stamp.inode &&
           now->size == stamp.size && same_time(now->modified, stamp.modified) &&
           same_time(now->changed, stamp.changed);
}

/* The file's bytes, to be freed; NULL with `error` filled. */
static char *read_file(const char *path, size_t *length, struct sim_error *error)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (file < 0) {
        sim_fail(error, 0, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    char *text = NULL;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
        sim_fail(error, 0, "is not a regular file");
    } else if ((text = malloc(SIM_MAX_FILE_BYTES + 1)) == NULL) {
        sim_fail(error, 0, "out of memory");
    } else {
        size_t total = 0;
        ssize_t got = 0;
        while (total <= SIM_MAX_FILE_BYTES &&
               (got = read(file, text + total, SIM_MAX_FILE_BYTES + 1 - total)) > 0)
            total += (size_t)got;
        if (got < 0 || total > SIM_MAX_FILE_BYTES) {
            sim_fail(error, 0, "cannot be read whole (at most %d bytes)", SIM_MAX_FILE_BYTES);
            free(text);
            text = NULL;
        }
        *length = total;
    }
    close(file);
    return text;
}

static void drop(struct sim_snapshot *snapshot)
{
    if (snapshot && --snapshot->references == 0)
        free(snapshot);
}

/* With the lock held: makes `current` what the file says now. */
static void refresh(void)
{
    const char *path = description_path();
    struct stat status;
    struct stamp now = {0};
    if (stat(path, &status) == 0)
        now = stamp_of(&status);
    if (unchanged(&now))
        return;
    stamp = now;
    have_stamp = true;
    drop(current);
    current = NULL;
    struct sim_error error = {0};
    size_t length = 0;
    char *text = read_file(path, &length, &error);
    struct sim_snapshot *snapshot = text ? malloc(sizeof(*snapshot)) : NULL;
    if (text && !snapshot)
        sim_fail(&error, 0, "out of memory");
    if (snapshot && sim_parse(text, length, &snapshot->system, &error)) {
        snapshot->references = 1;
        current = snapshot;
        last_complaint[0] = '\0';
    } else {
        free(snapshot);
        complain(path, &error);
    }
    free(text);
}

nvmlReturn_t sim_init(void)
{
    pthread_mutex_lock(&lock);
    refresh();
    nvmlReturn_t result = current ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
    if (current)
        users++;
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t sim_shutdown(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&lock);
    if (users == 0) {
        result = NVML_ERROR_UNINITIALIZED;
    } else if (--users == 0) {
        drop(current);
        current = NULL;
        have_stamp = false;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

nvmlReturn_t sim_open(struct sim_view *view)
{
    nvmlReturn_t result = NVML_SUCCESS;
    memset(view, 0, sizeof(*view));
    pthread_mutex_lock(&lock);
    if (users == 0) {
        result = NVML_ERROR_UNINITIALIZED;
    } else {
        refresh();
        if (current) {
            current->references++;
            view->snapshot = current;
            view->system = &current->system;
        } else {
            result = NVML_ERROR_DRIVER_NOT_LOADED;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void sim_close(struct sim_view *view)
{
    if (!view->snapshot)
        return;
    pthread_mutex_lock(&lock);
    drop(view->snapshot);
    pthread_mutex_unlock(&lock);
    memset(view, 0, sizeof(*view));
}

void sim_wait_for_edit(unsigned limit_ms)
{
    poll(NULL, 0, (int)(limit_ms < SIM_LOOK_EVERY_MS ? limit_ms : SIM_LOOK_EVERY_MS));
}

nvmlReturn_t sim_open_device(struct sim_view *view, nvmlDevice_t device)
{
    for (;;) {
        nvmlReturn_t result = sim_open(view);
        unsigned index;
        if (result == NVML_SUCCESS && !sim_handle_index(device, &index))
            result = NVML_ERROR_INVALID_ARGUMENT;
        /* A handle whose GPU an edit took away: to its holder the GPU is gone. */
        else if (result == NVML_SUCCESS && (index >= view->system->gpu_count ||
                                            view->system->gpus[index].fault == SIM_FAULT_LOST))
            result = NVML_ERROR_GPU_IS_LOST;
        if (result != NVML_SUCCESS) {
            sim_close(view);
            return result;
        }
        view->index = index;
        view->gpu = &view->system->gpus[index];
        if (view->gpu->fault != SIM_FAULT_HANG)
            return NVML_SUCCESS;
        sim_close(view);
        sim_wait_for_edit(SIM_LOOK_EVERY_MS);
    }
}

nvmlDevice_t sim_handle(unsigned index)
{
    return &handles[index];
}

bool sim_handle_index(nvmlDevice_t device, unsigned *index)
{
    for (unsigned i = 0; i < SIM_MAX_GPUS; i++) {
        if (device == &handles[i]) {
            *index = i;
            return true;
        }
    }
    return false;
}

nvmlReturn_t sim_copy_text(char *target, unsigned size, const char *text)
{
    size_t length = strlen(text) + 1;
    if (!target)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (size < length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(target, text, length);
    return NVML_SUCCESS;
}
