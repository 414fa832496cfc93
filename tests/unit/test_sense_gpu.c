/*
 * test_sense_gpu.c - GPU memory, through a management library that the test builds (tests/fake/fake_nvml.c)
 * and scripts.
 */
#include "sense/gpu.h"
#include "sense/nvml.h"
#include "sense/sense.h"
#include "record/reader.h"
#include "base/clock.h"
#include "../fake/fake_proc.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <cmocka.h>

static const int64_t second_ns = TIDE_NS_PER_S;
static char library_root[64];
static struct tide_tree tree;
static struct tide_gpu *gpu;
static struct tide_gpu_view view;
static int64_t now_ns;

/* The source lies beside this one's directory. */
static void build_library(const char *name, const char *flag)
{
    char source[256], command[1024];
    snprintf(source, sizeof source, "%s", __FILE__);
    *strrchr(source, '/') = '\0';
    snprintf(command, sizeof command, "cc -std=gnu11 -shared -fPIC %s -o %s/%s %s/../fake/fake_nvml.c", flag,
             library_root, name, source);
    if (system(command) != 0)
        fake_die("cannot build", name);
}

static int build_libraries(void **state)
{
    (void)state;
    snprintf(library_root, sizeof library_root, "/tmp/fake_nvml.XXXXXX");
    if (!mkdtemp(library_root))
        fake_die("cannot make", library_root);
    build_library("all.so", "");
    build_library("v1.so", "-DONLY_V1");
    build_library("v3.so", "-DONLY_V3");
    return 0;
}

static int remove_libraries(void **state)
{
    (void)state;
    return nftw(library_root, fake_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

static void use_library(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", library_root, name);
    setenv("TIDEMARK_NVML", path, 1);
    snprintf(path, sizeof path, "%s/nvml", fake_root);
    setenv("FAKE_NVML", path, 1);
}

static int set_up(void **state)
{
    (void)state;
    fake_begin();
    use_library("all.so");
    now_ns = 1000 * second_ns;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tide_gpu_free(gpu);
    gpu = NULL;
    tide_tree_release(&tree);
    fake_end();
    return 0;
}

static void begin(void)
{
    struct tide_err err;
    assert_int_equal(tide_tree_init(&tree, fake_root, false, &err), 0);
    assert_int_equal(tide_tree_add_root(&tree, 100, now_ns, &err), 0);
    gpu = tide_gpu_new();
    assert_non_null(gpu);
    tide_gpu_settle(gpu);
}

static void look_after(int64_t ns)
{
    now_ns += ns;
    assert_int_equal(tide_tree_scan(&tree, now_ns, NULL), 0);
    tide_tree_read(&tree, now_ns);
    tide_gpu_look(gpu, &tree, now_ns, &view);
}

/* A minute later, which is longer than any pause that a slow machine makes between looks. */
static void look(void)
{
    look_after(60 * second_ns);
}

/* A member (or outsider) that holds these devices open. */
static void put(int pid, int parent, const char *devices)
{
    fake_put(&(struct fake_process){.pid = pid, .parent = parent, .start = (unsigned long)pid, .anon = 10});
    char path[128], target[64];
    snprintf(path, sizeof path, "%s/%d/fd", fake_root, pid);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%d/fd/0", fake_root, pid);
    (void)!symlink("/dev/nvidiactl", path);
    for (int i = 0; devices[i]; i++) {
        snprintf(path, sizeof path, "%s/%d/fd/%d", fake_root, pid, i + 3);
        snprintf(target, sizeof target, "/dev/nvidia%c", devices[i]);
        (void)!symlink(target, path);
    }
}

static int64_t whole(int64_t device)
{
    for (size_t i = 0; i < view.reading_count; i++)
        if (view.readings[i].device == device && view.readings[i].whole)
            return view.readings[i].bytes;
    return TIDE_UNKNOWN;
}

/* pid 0: those not told. */
static int64_t bytes_of(int64_t device, int64_t pid)
{
    for (size_t i = 0; i < view.reading_count; i++) {
        const struct tide_gpu_reading *reading = &view.readings[i];
        int64_t whose = reading->member ? reading->member->pid : 0;
        if (reading->device == device && !reading->whole && whose == pid)
            return reading->bytes;
    }
    return TIDE_UNKNOWN;
}

static void a_machine_without_the_library_is_silent(void **state)
{
    (void)state;
    setenv("TIDEMARK_NVML", "/nowhere/libnvidia-ml.so.1", 1);
    put(100, 1, "");
    begin();
    look();
    assert_int_equal(view.device_count, 0);
    assert_int_equal(view.reading_count, 0);
    assert_null(view.note);
}

static void a_library_without_devices_is_silent(void **state)
{
    (void)state;
    fake_write("nvml", "\n");
    put(100, 1, "");
    begin();
    look();
    assert_int_equal(view.device_count, 0);
    assert_null(view.note);
}

static void members_are_matched_by_their_pid(void **state)
{
    (void)state;
    put(100, 1, "");
    put(200, 100, "0");
    put(300, 1, "0"); /* an outsider */
    fake_write("nvml", "device 0 900 1000\ncompute 200 500\ncompute 300 300\ngraphics 200 510\n");
    begin();
    look();
    assert_int_equal(view.device_count, 1);
    assert_string_equal(view.devices[0].name, "Fake 0");
    assert_string_equal(view.devices[0].uuid, "GPU-0");
    assert_int_equal(view.devices[0].total_bytes, 1000);
    assert_int_equal(whole(0), 900);
    assert_int_equal(bytes_of(0, 200), 510); /* in both lists: once, the larger */
    assert_int_equal(view.reading_count, 2);
}

static void every_generation_of_the_library_gives_the_same(void **state)
{
    (void)state;
    static const char *const names[] = {"all.so", "v1.so", "v3.so"};
    put(100, 1, "0");
    put(200, 100, "0");
    put(201, 100, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 200 7\ncompute 100 5\ncompute 201 9\n");
    for (size_t i = 0; i < 3; i++) {
        use_library(names[i]);
        begin();
        look();
        assert_int_equal(bytes_of(0, 100), 5);
        assert_int_equal(bytes_of(0, 200), 7);
        assert_int_equal(bytes_of(0, 201), 9);
        tide_gpu_free(gpu);
        gpu = NULL;
        tide_tree_release(&tree);
    }
}

static void more_processes_than_there_is_room_for_are_asked_for_again(void **state)
{
    (void)state;
    char script[8192];
    int len = snprintf(script, sizeof script, "device 0 900 1000\n");
    for (int i = 0; i < 300; i++)
        len += snprintf(script + len, sizeof script - (size_t)len, "compute %d 1\n", 5000 + i);
    snprintf(script + len, sizeof script - (size_t)len, "compute 100 77\n");
    fake_write("nvml", "%s", script);
    put(100, 1, "0");
    begin();
    look();
    assert_int_equal(bytes_of(0, 100), 77);
}

static void a_foreign_pid_is_the_only_member_that_holds_the_device(void **state)
{
    (void)state;
    put(100, 1, "");
    put(200, 100, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 4000123 640\n");
    begin();
    look();
    assert_int_equal(bytes_of(0, 200), 640);
    /* A second one comes: the first is told already, so this one can be too. */
    put(201, 100, "0");
    fake_write("nvml", "device 0 950 1000\ncompute 4000123 640\ncompute 4000200 30\n");
    look();
    assert_int_equal(bytes_of(0, 200), 640);
    assert_int_equal(bytes_of(0, 201), 30);
}

static void ranks_that_all_hold_all_devices_are_matched_in_order_of_their_start(void **state)
{
    (void)state;
    put(100, 1, "");
    put(201, 100, "01");
    put(202, 100, "01");
    fake_write("nvml", "device 0 900 1000\ncompute 4000202 20\ndevice 1 900 1000\ncompute 4000201 10\n");
    begin();
    look();
    assert_int_equal(bytes_of(0, 202), 20);
    assert_int_equal(bytes_of(1, 201), 10);
}

static void what_cannot_be_told_is_said_so_and_added_up(void **state)
{
    (void)state;
    put(100, 1, "");
    put(201, 100, "0");
    put(202, 100, "0");
    put(203, 100, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 4000201 10\ncompute 4000202 20\n");
    begin();
    look();
    assert_int_equal(bytes_of(0, 0), 30);
    assert_int_equal(bytes_of(0, 201), TIDE_UNKNOWN);
}

static void a_foreign_pid_on_a_device_that_no_member_holds_is_somebody_elses(void **state)
{
    (void)state;
    put(100, 1, "");
    fake_write("nvml", "device 0 900 1000\ncompute 4000123 640\n");
    begin();
    look();
    assert_int_equal(view.reading_count, 1);
    assert_int_equal(whole(0), 900);
    /* And stays so when a member opens the device later. */
    put(200, 100, "0");
    look();
    assert_int_equal(bytes_of(0, 200), TIDE_UNKNOWN);
    assert_int_equal(bytes_of(0, 0), TIDE_UNKNOWN);
    fake_write("nvml", "device 0 990 1000\ncompute 4000123 640\ncompute 4000200 90\n");
    look();
    assert_int_equal(bytes_of(0, 200), 90);
}

static void a_pid_that_happens_to_be_a_members_but_holds_no_device_is_not_believed(void **state)
{
    (void)state;
    put(100, 1, "");
    put(200, 100, "0"); /* the real one, whose PID out there is 100 */
    fake_write("nvml", "device 0 900 1000\ncompute 100 640\n");
    begin();
    look();
    assert_int_equal(bytes_of(0, 100), TIDE_UNKNOWN);
    assert_int_equal(bytes_of(0, 200), 640);
}

static void a_driver_that_does_not_say_how_much_gives_the_device_to_who_is_alone(void **state)
{
    (void)state;
    put(100, 1, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 -1\n");
    begin();
    look();
    assert_int_equal(bytes_of(0, 100), 900);
    put(200, 100, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 -1\ncompute 200 -1\n");
    look();
    assert_int_equal(bytes_of(0, 100), TIDE_UNKNOWN);
    assert_int_equal(bytes_of(0, 200), TIDE_UNKNOWN);
    assert_int_equal(bytes_of(0, 0), 900);
}

static void a_driver_that_tells_of_nobody_gives_the_device_to_those_who_hold_it(void **state)
{
    (void)state;
    put(100, 1, "");
    fake_write("nvml", "device 0 900 1000\ndevice 1 50 1000\n");
    begin();
    look();
    assert_int_equal(view.reading_count, 2);
    put(200, 100, "0");
    look();
    assert_int_equal(bytes_of(0, 0), 900);
    assert_int_equal(bytes_of(1, 0), TIDE_UNKNOWN);
    /* Until it does tell. */
    fake_write("nvml", "device 0 900 1000\ncompute 200 640\ndevice 1 50 1000\n");
    look();
    assert_int_equal(bytes_of(0, 200), 640);
    assert_int_equal(bytes_of(0, 0), 0);
}

static void the_number_of_a_device_and_of_its_file_may_differ(void **state)
{
    (void)state;
    put(100, 1, "3");
    fake_write("nvml", "device 3 900 1000\ncompute 4000123 640\n");
    begin();
    look();
    assert_int_equal(bytes_of(0, 100), 640);
}

static void unchanged_readings_are_given_once_a_second(void **state)
{
    (void)state;
    if (getenv("TIDEMARK_VALGRIND")) /* which is too slow to look twice a second */
        skip();
    put(100, 1, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 5\n");
    begin();
    look();
    assert_int_equal(view.reading_count, 2);
    look_after(second_ns * 45 / 100);
    assert_int_equal(view.reading_count, 0);
    fake_write("nvml", "device 0 900 1000\ncompute 100 6\n");
    look_after(second_ns / 2);
    assert_int_equal(view.reading_count, 1);
    assert_int_equal(bytes_of(0, 100), 6);
    look();
    assert_int_equal(view.reading_count, 2);
}

static void who_lets_go_of_a_device_has_nothing_of_it_any_more(void **state)
{
    (void)state;
    put(100, 1, "0");
    put(200, 100, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 5\ncompute 200 7\n");
    begin();
    look();
    fake_kill(200);
    fake_write("nvml", "device 0 100 1000\n");
    look();
    assert_int_equal(bytes_of(0, 100), 0);
    assert_int_equal(bytes_of(0, 200), TIDE_UNKNOWN); /* it has ended: its row says so */
    look();
    assert_int_equal(bytes_of(0, 100), TIDE_UNKNOWN); /* said once */
}

static void the_driver_is_asked_at_most_four_times_a_second(void **state)
{
    (void)state;
    put(100, 1, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 5\n");
    begin();
    look();
    fake_write("nvml", "device 0 900 1000\ncompute 100 6\n");
    look_after(second_ns / 10);
    assert_int_equal(view.reading_count, 0);
    look();
    assert_int_equal(bytes_of(0, 100), 6);
}

static void a_driver_that_fails_is_noted_once_and_left_alone(void **state)
{
    (void)state;
    put(100, 1, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 5\n");
    begin();
    look();
    fake_write("nvml", "device 0 900 1000\nfail 15\n");
    look();
    assert_string_equal(view.note,
                        "GPU memory is not recorded from here on: device 0 answered \"GPU is lost\"");
    assert_int_equal(view.reading_count, 0);
    look();
    assert_null(view.note);
}

static void a_device_that_does_not_support_the_question_is_no_failure(void **state)
{
    (void)state;
    put(100, 1, "01");
    fake_write("nvml", "device 0 900 1000\nfail 3\ndevice 1 800 1000\ncompute 100 9\n");
    begin();
    look();
    assert_null(view.note);
    assert_int_equal(whole(0), TIDE_UNKNOWN);
    assert_int_equal(view.devices[0].total_bytes, TIDE_UNKNOWN);
    assert_int_equal(bytes_of(1, 100), 9);
}

static int on_gpu(void *context, const void *given)
{
    const struct tide_gpu_sample *row = given;
    int64_t *sums = context; /* whole devices, members, not told */
    sums[row->process == 0 ? 0 : row->process == TIDE_UNKNOWN ? 2 : 1] += row->bytes;
    return 0;
}

static int on_device(void *context, const void *given)
{
    const struct tide_gpu_device *row = given;
    assert_string_equal(row->name, "Fake 0");
    assert_int_equal(row->total_bytes, 1000);
    ++*(int *)context;
    return 0;
}

static void what_is_seen_gets_into_the_recording(void **state)
{
    (void)state;
    char path[96];
    int64_t root = 100, sums[3] = {0, 0, 0};
    int devices = 0;
    struct tide_err err;
    struct tide_sense *sense;
    struct tide_sense_view seen;
    struct tide_writer *writer;
    struct tide_reader *reader;
    put(100, 1, "0");
    put(200, 100, "0");
    put(201, 100, "0");
    fake_write("nvml", "device 0 900 1000\ncompute 100 5\ncompute 4000001 20\n");
    snprintf(path, sizeof path, "%s/x.tide", fake_root);
    struct tide_sense_config config = {.root = root,
                                       .limit_bytes = TIDE_UNKNOWN,
                                       .gpu = true,
                                       .proc_path = fake_root,
                                       .cgroup_path = "/nowhere",
                                       .base_ns = now_ns};
    assert_int_equal(tide_writer_new(path, &writer, &err), 0);
    assert_int_equal(tide_sense_new(&config, &sense, &err), 0);
    /* The library is loaded in the background: look until it is there. */
    for (int i = 0; i < 2000 && sums[0] == 0; i++) {
        now_ns += second_ns;
        assert_int_equal(tide_sense_look(sense, writer, now_ns, &seen, &err), 0);
        assert_int_equal(tide_writer_commit(writer, &err), 0);
        assert_int_equal(tide_reader_new(path, &reader, &err), 0);
        assert_int_equal(tide_reader_each(reader, TIDE_SCHEMA_GPU, 0, on_gpu, sums, &err), 0);
        assert_int_equal(
            tide_reader_each(reader, TIDE_SCHEMA_GPU_DEVICE, TIDE_READER_ALL, on_device, &devices, &err), 0);
        tide_reader_free(reader);
        usleep(1000);
    }
    assert_int_equal(sums[0], 900);
    assert_int_equal(sums[1], 5);
    assert_int_equal(sums[2], 20);
    assert_int_equal(devices, 1);
    tide_sense_free(sense);
    assert_int_equal(tide_writer_free(writer, &err), 0);
}

static size_t count_threads(void)
{
    size_t count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

static void the_end_waits_for_a_library_that_is_being_loaded(void **state)
{
    (void)state;
    size_t before = count_threads();
    setenv("FAKE_NVML_INIT_MS", "300", 1);
    gpu = tide_gpu_new();
    assert_non_null(gpu);
    tide_gpu_free(gpu);
    gpu = NULL;
    unsetenv("FAKE_NVML_INIT_MS");
    assert_int_equal(count_threads(), before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_machine_without_the_library_is_silent),
        TEST(a_library_without_devices_is_silent),
        TEST(members_are_matched_by_their_pid),
        TEST(every_generation_of_the_library_gives_the_same),
        TEST(more_processes_than_there_is_room_for_are_asked_for_again),
        TEST(a_foreign_pid_is_the_only_member_that_holds_the_device),
        TEST(ranks_that_all_hold_all_devices_are_matched_in_order_of_their_start),
        TEST(what_cannot_be_told_is_said_so_and_added_up),
        TEST(a_foreign_pid_on_a_device_that_no_member_holds_is_somebody_elses),
        TEST(a_pid_that_happens_to_be_a_members_but_holds_no_device_is_not_believed),
        TEST(a_driver_that_tells_of_nobody_gives_the_device_to_those_who_hold_it),
        TEST(a_driver_that_does_not_say_how_much_gives_the_device_to_who_is_alone),
        TEST(the_number_of_a_device_and_of_its_file_may_differ),
        TEST(unchanged_readings_are_given_once_a_second),
        TEST(who_lets_go_of_a_device_has_nothing_of_it_any_more),
        TEST(the_driver_is_asked_at_most_four_times_a_second),
        TEST(a_driver_that_fails_is_noted_once_and_left_alone),
        TEST(a_device_that_does_not_support_the_question_is_no_failure),
        TEST(what_is_seen_gets_into_the_recording),
        TEST(the_end_waits_for_a_library_that_is_being_loaded),
    };
    return cmocka_run_group_tests(tests, build_libraries, remove_libraries);
}
