/*
 * fuzz_plan_json.c - any bytes as the plan of a run, as `tidemark plan --json` writes it.
 */
#include "base/check.h"
#include "plan/plan_text.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tide_forecast forecast;
    char path[32];
    bool is_host;
    struct tide_err err;
    int fd = memfd_create("plan", MFD_CLOEXEC);
    TIDE_CHECK(fd, >=, 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    TIDE_CHECK(write(fd, data, size), ==, (ssize_t)size);
    if (!tide_plan_read(path, &forecast, &is_host, &err)) {
        TIDE_CHECK(forecast.device, >=, 0);
        TIDE_CHECK(forecast.phase_count, <=, TIDE_PHASES_MOST);
        for (int i = 0; i < forecast.phase_count; i++)
            TIDE_CHECK_TRUE(forecast.phases[i].name != NULL);
    }
    close(fd);
    return 0;
}
