/*
 * census.c - finds the interpreter's functions, and calls them when a count is due (census.h).
 */
#include "hook/census.h"
#include "hook/hook_clock.h"
#include "hook/pyframes.h"
#include "hook/wiped.h"

#include <stdatomic.h>
#include <stddef.h>

#define SECOND_NS UINT64_C(1000000000)
#define AGAIN_NS  (SECOND_NS / 2) /* until the next try, if it cannot be asked now */

enum {
    FILE_INPUT = 257, /* Py_file_input */
    COST_SHARE = 50   /* counting takes a fiftieth of the time at most */
};

/* _asked.py has the module's own rules. This code does not import somebody else's module called tidemark. An
 * error while it looks for ours ends the census, unless a signal handler of the program raised the error. */
static const char question[] =
    "import sys\n"
    "def find():\n"
    "    import importlib.util, os\n"
    "    try:\n"
    "        spec = importlib.util.find_spec('tidemark')\n"
    "        if spec and spec.origin and os.path.exists(os.path.join(os.path.dirname(spec.origin), '_asked.py')):\n"
    "            from tidemark import _asked\n"
    "            return _asked\n"
    "    except Exception as error:\n"
    "        import signal\n"
    "        handlers = [signal.getsignal(number) for number in range(1, signal.NSIG)]\n"
    "        codes = [getattr(getattr(each, '__func__', each), '__code__', None) or\n"
    "                 getattr(type(each).__call__, '__code__', None) for each in handlers if callable(each)]\n"
    "        at = error.__traceback__\n"
    "        while at:\n"
    "            if at.tb_frame.f_code in codes:\n"
    "                raise\n"
    "            at = at.tb_next\n"
    "asked = None\n"
    "if getattr(getattr(sys.modules.get('torch'), '__spec__', None), '_initializing', False):\n"
    "    answer = 'later'\n"
    "else:\n"
    "    asked = sys.modules.get('tidemark._asked') or find()\n"
    "    answer = 'never'\n"
    "if asked:\n"
    "    answer = asked.census()\n";

/* The interpreter's functions and objects; one interpreter per process. `ready` is set last. */
static struct {
    atomic_bool ready;
    uintptr_t start; /* of its object */
    uintptr_t loop;  /* _PyEval_EvalFrameDefault */
    void *none;
    int (*is_initialized)(void);
    int (*is_ending)(void);
    int (*add_pending)(int (*)(void *), void *);
    void *(*interpreter)(void);
    uintptr_t (*loop_in_use)(void *interpreter);
    void *(*modules)(void);
    void *(*named)(void *dict, const char *key);
    void *(*of_sys)(const char *name);
    void *(*call)(void *callable, void *args);
    void *(*new_dict)(void);
    void *(*run)(const char *code, int start, void *globals, void *locals);
    const char *(*text)(void *object);
    void (*clear_error)(void);
    void (*release)(void *object);
} python;

/* A forked child begins anew. */
static struct TIDE_WIPED {
    atomic_bool is_asked, is_over;
    _Atomic uint64_t next_ns;
    uint64_t began_ns; /* time of the first census; used by the main thread only */
} asking;

static bool refused;

enum answer { LATER, NEVER, COUNTED, RAISED };

int tide_census_init(void)
{
    return tide_wiped_declare(&asking, sizeof asking);
}

void tide_census_refuse(void)
{
    refused = true;
}

void tide_census_consider(const struct tide_object *object)
{
    if (refused || atomic_load(&python.ready) ||
        !tide_object_symbol(object, "_PyEval_EvalFrameDefault", NULL))
        return;
    static const struct {
        const char *name, *older;
        void *to;
    } wanted[] = {
        {"_PyEval_EvalFrameDefault", NULL, &python.loop},
        {"_Py_NoneStruct", NULL, &python.none},
        {"Py_IsInitialized", NULL, &python.is_initialized},
        {"Py_IsFinalizing", "_Py_IsFinalizing", &python.is_ending},
        {"Py_AddPendingCall", NULL, &python.add_pending},
        {"PyInterpreterState_Get", NULL, &python.interpreter},
        {"_PyInterpreterState_GetEvalFrameFunc", NULL, &python.loop_in_use},
        {"PyImport_GetModuleDict", NULL, &python.modules},
        {"PyDict_GetItemString", NULL, &python.named},
        {"PySys_GetObject", NULL, &python.of_sys},
        {"PyObject_CallObject", NULL, &python.call},
        {"PyDict_New", NULL, &python.new_dict},
        {"PyRun_String", NULL, &python.run},
        {"PyUnicode_AsUTF8", NULL, &python.text},
        {"PyErr_Clear", NULL, &python.clear_error},
        {"Py_DecRef", NULL, &python.release},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        uintptr_t found = tide_object_symbol(object, wanted[i].name, NULL);
        if (!found && wanted[i].older)
            found = tide_object_symbol(object, wanted[i].older, NULL);
        if (!found)
            return;
        *(uintptr_t *)wanted[i].to = found;
    }
    python.start = object->start;
    atomic_store(&python.ready, true);
}

void tide_census_unloaded(void)
{
    struct tide_object object;
    if (atomic_load(&python.ready) &&
        (!tide_object_find(python.loop, &object) || object.start != python.start))
        atomic_store(&python.ready, false);
}

/* True if the C function sys.NAME returns something other than None. */
static bool is_set(const char *name)
{
    void *function = python.of_sys(name), *found = function ? python.call(function, NULL) : NULL;
    if (!found) {
        python.clear_error();
        return true;
    }
    bool set = found != python.none;
    python.release(found);
    return set;
}

/* True if a debugger, a profiler or torch.compile would see every function that is called now. */
static bool is_watched(void)
{
    return python.loop_in_use(python.interpreter()) != python.loop || is_set("gettrace") ||
           is_set("getprofile");
}

static enum answer put_question(void)
{
    void *modules = python.modules();
    if (!modules || !python.named(modules, "torch") || is_watched())
        return LATER;
    void *globals = python.new_dict();
    if (!globals) {
        python.clear_error();
        return LATER;
    }
    void *done = python.run(question, FILE_INPUT, globals, globals);
    void *said = done ? python.named(globals, "answer") : NULL;
    const char *text = said && said != python.none ? python.text(said) : NULL;
    enum answer answer = !done ? RAISED : text && *text == 'l' ? LATER : text ? NEVER : COUNTED;
    if (done)
        python.release(done);
    python.release(globals);
    return answer;
}

/* Runs on the main thread, with the interpreter's lock. -1: passes an exception on to the program. */
static int answer_now(void *unused)
{
    (void)unused;
    uint64_t cost = tide_hook_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    enum answer answer = python.is_ending() ? NEVER : put_question();
    uint64_t now = tide_hook_clock_ns(CLOCK_MONOTONIC);
    cost = tide_hook_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cost;
    if (answer == NEVER)
        atomic_store(&asking.is_over, true);
    if (answer == COUNTED && !asking.began_ns)
        asking.began_ns = now;
    uint64_t wait = AGAIN_NS;
    if (answer == COUNTED || answer == RAISED) {
        wait = asking.began_ns ? now - asking.began_ns : 0;
        wait = wait > SECOND_NS ? wait : SECOND_NS;
        wait = wait > COST_SHARE * cost ? wait : COST_SHARE * cost;
    }
    atomic_store(&asking.next_ns, now + wait);
    atomic_store(&asking.is_asked, false); /* last, because counting allocates and would ask again */
    return answer == RAISED ? -1 : 0;
}

void tide_census_ask(uint64_t now)
{
    uint64_t next = atomic_load_explicit(&asking.next_ns, memory_order_relaxed);
    if (now < next || !atomic_load_explicit(&python.ready, memory_order_acquire) ||
        atomic_load_explicit(&asking.is_over, memory_order_relaxed) || !tide_pyframes_is_main_thread() ||
        !python.is_initialized() || python.is_ending())
        return;
    if (!next) {
        atomic_store(&asking.next_ns, now + AGAIN_NS);
        return;
    }
    if (atomic_exchange(&asking.is_asked, true))
        return;
    if (python.add_pending(answer_now, NULL)) {
        atomic_store(&asking.is_asked, false);
        atomic_store(&asking.next_ns, now + AGAIN_NS);
    }
}
