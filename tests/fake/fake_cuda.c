/*
 * fake_cuda.c - a CUDA driver for devices that are not there. Tests build it as libcuda.so.1 and put it where
 * the loader looks first. Its memory is addresses that nobody can touch, and it keeps the rules of the real
 * one: an unknown pointer is refused, a mapping goes whole or not at all, memory made by a handle lives until
 * the last handle is released and the last mapping unmapped.
 *
 *     FAKE_CUDA_BYTES     how much memory the device has (1 GiB)
 *
 * fake_cuda_used() is what the device holds by the driver's own account: the truth that tests compare with.
 * Built with -DSTRANGE it lacks cuMemFree_v2. Only the functions that allocate are here, with the ways to
 * them.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NOT_FOUND = 500 };
enum { BLOCKS_MOST = 8192, GRAIN = 512, PAGE = 2 << 20, PITCH = 512, HANDLE_BIT = 40 };

/* Memory with an address, a piece without one, or a mapping of a piece. */
enum kind { FREE, DEVICE, HOST, PIECE, MAPPING };
struct block {
    enum kind kind;
    uint64_t at, bytes;
    unsigned handles, mappings;
    struct block *piece;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block blocks[BLOCKS_MOST];
static uint64_t used, next_address, end_address, next_handle = UINT64_C(1) << HANDLE_BIT;
static int initialized;

static uint64_t device_bytes(void)
{
    const char *text = getenv("FAKE_CUDA_BYTES");
    return text ? strtoull(text, NULL, 10) : UINT64_C(1) << 30;
}

static struct block *find(enum kind kind, uint64_t at)
{
    for (struct block *b = blocks; b < blocks + BLOCKS_MOST; b++)
        if (b->kind == kind && b->at == at)
            return b;
    return NULL;
}

static struct block *fresh(void)
{
    for (struct block *b = blocks; b < blocks + BLOCKS_MOST; b++)
        if (b->kind == FREE)
            return b;
    return NULL;
}

/* Addresses that were freed are given again at once: that is where a profiler's mistakes show. */
static uint64_t address_for(uint64_t bytes)
{
    static uint64_t last_bytes, last_address;
    if (bytes == last_bytes && !find(DEVICE, last_address))
        return last_address;
    if (!next_address) {
        uint64_t room = UINT64_C(64) << 30;
        void *reserved = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        next_address = reserved == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)reserved;
        end_address = next_address ? next_address + room : 0;
    }
    uint64_t step = (bytes + GRAIN - 1) / GRAIN * GRAIN;
    if (end_address - next_address < step)
        return 0;
    last_bytes = bytes;
    last_address = next_address;
    next_address += step;
    return last_address;
}

static int take(uint64_t *ret, uint64_t bytes)
{
    int result = OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    struct block *b = fresh();
    if (!initialized)
        result = NOT_INITIALIZED;
    else if (!ret || !bytes)
        result = INVALID_VALUE;
    else if (b && bytes <= device_bytes() - used && (b->at = address_for(bytes))) {
        b->kind = DEVICE;
        b->bytes = bytes;
        used += bytes;
        *ret = b->at;
        result = OK;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static int give(uint64_t pointer)
{
    pthread_mutex_lock(&lock);
    struct block *b = pointer ? find(DEVICE, pointer) : NULL;
    if (b) {
        used -= b->bytes;
        b->kind = FREE;
    }
    pthread_mutex_unlock(&lock);
    return b || !pointer ? OK : INVALID_VALUE;
}

uint64_t fake_cuda_used(void)
{
    pthread_mutex_lock(&lock);
    uint64_t now = used;
    pthread_mutex_unlock(&lock);
    return now;
}

int cuInit(unsigned flags)
{
    (void)flags;
    initialized = 1;
    return OK;
}

int cuDriverGetVersion(int *ret)
{
    *ret = 13000;
    return OK;
}

/* ---- memory with an address */

int cuMemAlloc(unsigned *ret, unsigned bytes)
{
    (void)ret, (void)bytes;
    return INVALID_VALUE; /* the first version, with pointers of 32 bits */
}

int cuMemAlloc_v2(uint64_t *ret, size_t bytes)
{
    return take(ret, bytes);
}

int cuMemAllocPitch_v2(uint64_t *ret, size_t *ret_pitch, size_t width, size_t height, unsigned element)
{
    (void)element;
    *ret_pitch = (width + PITCH - 1) / PITCH * PITCH;
    return take(ret, *ret_pitch * height);
}

int cuMemAllocManaged(uint64_t *ret, size_t bytes, unsigned flags)
{
    (void)flags;
    return take(ret, bytes);
}

int cuMemAllocAsync(uint64_t *ret, size_t bytes, void *stream)
{
    (void)stream;
    return take(ret, bytes);
}

int cuMemAllocAsync_ptsz(uint64_t *ret, size_t bytes, void *stream)
{
    (void)stream;
    return take(ret, bytes);
}

int cuMemAllocFromPoolAsync(uint64_t *ret, size_t bytes, void *pool, void *stream)
{
    (void)pool, (void)stream;
    return take(ret, bytes);
}

int cuMemAllocFromPoolAsync_ptsz(uint64_t *ret, size_t bytes, void *pool, void *stream)
{
    (void)pool, (void)stream;
    return take(ret, bytes);
}

#ifndef STRANGE
int cuMemFree_v2(uint64_t pointer)
{
    return give(pointer);
}
#endif

int cuMemFreeAsync(uint64_t pointer, void *stream)
{
    (void)stream;
    return give(pointer);
}

int cuMemFreeAsync_ptsz(uint64_t pointer, void *stream)
{
    (void)stream;
    return give(pointer);
}

/* Pinned memory, as the real driver makes it: shared and anonymous. */
int cuMemHostAlloc(void **ret, size_t bytes, unsigned flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct block *b = fresh();
    void *memory = b && bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                              : MAP_FAILED;
    if (memory != MAP_FAILED) {
        *b = (struct block){.kind = HOST, .at = (uint64_t)(uintptr_t)memory, .bytes = bytes};
        *ret = memory;
    }
    pthread_mutex_unlock(&lock);
    return memory != MAP_FAILED ? OK : OUT_OF_MEMORY;
}

int cuMemAllocHost_v2(void **ret, size_t bytes)
{
    return cuMemHostAlloc(ret, bytes, 0);
}

int cuMemFreeHost(void *pointer)
{
    pthread_mutex_lock(&lock);
    struct block *b = find(HOST, (uint64_t)(uintptr_t)pointer);
    if (b) {
        munmap(pointer, b->bytes);
        b->kind = FREE;
    }
    pthread_mutex_unlock(&lock);
    return b ? OK : INVALID_VALUE;
}

/* ---- memory that is given an address later */

int cuMemAddressReserve(uint64_t *ret, size_t bytes, size_t alignment, uint64_t wanted,
                        unsigned long long flags)
{
    (void)alignment, (void)wanted, (void)flags;
    void *reserved = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *ret = (uint64_t)(uintptr_t)reserved;
    return reserved == MAP_FAILED ? OUT_OF_MEMORY : OK;
}

int cuMemCreate(uint64_t *ret, size_t bytes, const void *properties, unsigned long long flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct block *b = fresh();
    int fits = b && properties && bytes && bytes % PAGE == 0 && bytes <= device_bytes() - used;
    if (fits) {
        *b = (struct block){.kind = PIECE, .at = next_handle++, .bytes = bytes, .handles = 1};
        *ret = b->at;
        used += bytes;
    }
    pthread_mutex_unlock(&lock);
    return fits ? OK : OUT_OF_MEMORY;
}

static void settle(struct block *piece)
{
    if (piece->handles || piece->mappings)
        return;
    used -= piece->bytes;
    piece->kind = FREE;
}

int cuMemRelease(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    struct block *b = find(PIECE, handle);
    int known = b && b->handles;
    if (known) {
        b->handles--;
        settle(b);
    }
    pthread_mutex_unlock(&lock);
    return known ? OK : INVALID_VALUE;
}

int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, unsigned long long flags)
{
    (void)flags;
    pthread_mutex_lock(&lock);
    struct block *piece = find(PIECE, handle), *b = fresh();
    int fits = piece && b && !offset && bytes && bytes <= piece->bytes && !find(MAPPING, at);
    if (fits) {
        *b = (struct block){.kind = MAPPING, .at = at, .bytes = bytes, .piece = piece};
        piece->mappings++;
    }
    pthread_mutex_unlock(&lock);
    return fits ? OK : INVALID_VALUE;
}

int cuMemUnmap(uint64_t at, size_t bytes)
{
    uint64_t end = at + bytes, covered = 0;
    pthread_mutex_lock(&lock);
    for (struct block *b = blocks; b < blocks + BLOCKS_MOST; b++)
        if (b->kind == MAPPING && b->at >= at && b->at + b->bytes <= end)
            covered += b->bytes;
    int whole = bytes && covered == bytes;
    for (struct block *b = blocks; whole && b < blocks + BLOCKS_MOST; b++)
        if (b->kind == MAPPING && b->at >= at && b->at < end) {
            b->kind = FREE;
            b->piece->mappings--;
            settle(b->piece);
        }
    pthread_mutex_unlock(&lock);
    return whole ? OK : INVALID_VALUE;
}

int cuMemSetAccess(uint64_t at, size_t bytes, const void *who, size_t count)
{
    pthread_mutex_lock(&lock);
    int known = who && count && bytes && find(MAPPING, at);
    pthread_mutex_unlock(&lock);
    return known ? OK : INVALID_VALUE;
}

int cuMemRetainAllocationHandle(uint64_t *ret, void *address)
{
    uint64_t at = (uint64_t)(uintptr_t)address;
    int found = 0;
    pthread_mutex_lock(&lock);
    for (struct block *b = blocks; !found && b < blocks + BLOCKS_MOST; b++)
        if (b->kind == MAPPING && at >= b->at && at < b->at + b->bytes) {
            b->piece->handles++;
            *ret = b->piece->at;
            found = 1;
        }
    pthread_mutex_unlock(&lock);
    return found ? OK : INVALID_VALUE;
}

/* ---- ways to the functions */

int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags);
int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status);

/* flags 2: for streams that are each thread's own. */
static void *look_up(const char *name, int version, uint64_t flags)
{
    static const struct {
        const char *name;
        int since;
        void *all, *own;
    } functions[] = {
        {"cuInit", 2000, (void *)cuInit, NULL},
        {"cuDriverGetVersion", 2020, (void *)cuDriverGetVersion, NULL},
        {"cuMemAlloc", 3020, (void *)cuMemAlloc_v2, NULL},
        {"cuMemAlloc", 2000, (void *)cuMemAlloc, NULL},
        {"cuMemAllocPitch", 3020, (void *)cuMemAllocPitch_v2, NULL},
        {"cuMemAllocManaged", 6000, (void *)cuMemAllocManaged, NULL},
        {"cuMemAllocHost", 3020, (void *)cuMemAllocHost_v2, NULL},
        {"cuMemHostAlloc", 2020, (void *)cuMemHostAlloc, NULL},
#ifndef STRANGE
        {"cuMemFree", 3020, (void *)cuMemFree_v2, NULL},
#endif
        {"cuMemFreeHost", 2000, (void *)cuMemFreeHost, NULL},
        {"cuMemAllocAsync", 11020, (void *)cuMemAllocAsync, (void *)cuMemAllocAsync_ptsz},
        {"cuMemAllocFromPoolAsync", 11020, (void *)cuMemAllocFromPoolAsync,
         (void *)cuMemAllocFromPoolAsync_ptsz},
        {"cuMemFreeAsync", 11020, (void *)cuMemFreeAsync, (void *)cuMemFreeAsync_ptsz},
        {"cuMemAddressReserve", 10020, (void *)cuMemAddressReserve, NULL},
        {"cuMemCreate", 10020, (void *)cuMemCreate, NULL},
        {"cuMemRelease", 10020, (void *)cuMemRelease, NULL},
        {"cuMemMap", 10020, (void *)cuMemMap, NULL},
        {"cuMemUnmap", 10020, (void *)cuMemUnmap, NULL},
        {"cuMemSetAccess", 10020, (void *)cuMemSetAccess, NULL},
        {"cuMemRetainAllocationHandle", 11000, (void *)cuMemRetainAllocationHandle, NULL},
        {"cuGetProcAddress", 12000, (void *)cuGetProcAddress_v2, NULL},
        {"cuGetProcAddress", 11030, (void *)cuGetProcAddress, NULL},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name) && version >= functions[i].since)
            return flags & 2 && functions[i].own ? functions[i].own : functions[i].all;
    return NULL;
}

int cuGetProcAddress(const char *name, void **ret, int version, uint64_t flags)
{
    if (!name || !ret)
        return INVALID_VALUE;
    *ret = look_up(name, version, flags);
    return *ret ? OK : NOT_FOUND;
}

int cuGetProcAddress_v2(const char *name, void **ret, int version, uint64_t flags, int *ret_status)
{
    if (!name || !ret)
        return INVALID_VALUE;
    *ret = look_up(name, version, flags);
    if (ret_status)
        *ret_status = *ret ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    return OK;
}
