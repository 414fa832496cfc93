// arenas.cc - a C++ program with an arena that it tells the hook about: arenas orphaned|kept STEPS.
//
// The same two faults as in pools.c: chunks that a reset loses, and a container that keeps what it got.
#include "tidemark.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <unistd.h>
#include <vector>

namespace train {

class Arena {
public:
    static constexpr std::size_t chunk_bytes = 1 << 20;

    __attribute__((noinline)) char *grow()
    {
        char *chunk = static_cast<char *>(::operator new(chunk_bytes));
        tide_pool_chunk(chunk, chunk_bytes);
        std::memset(chunk, 1, chunk_bytes);
        chunks.push_back(chunk);
        used = 0;
        return chunk;
    }

    void *take(std::size_t bytes)
    {
        if (chunks.empty() || used + bytes > chunk_bytes)
            grow();
        void *pointer = chunks.back() + used;
        used += bytes;
        tide_pool_alloc(pointer, bytes);
        return pointer;
    }

    void reset()
    {
        for (char *chunk : chunks)
            tide_pool_clear(chunk, chunk_bytes);
        used = 0;
    }

    std::vector<char *> chunks;
    std::size_t used = 0;
};

struct Tensor {
    char values[150000];
};

template <typename T> __attribute__((noinline)) T *make(Arena &arena)
{
    return new (arena.take(sizeof(T))) T;
}

std::vector<Tensor *> history;

__attribute__((noinline)) void remember(Arena &arena)
{
    history.push_back(make<Tensor>(arena));
}

} // namespace train

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    bool orphans = !std::strcmp(argv[1], "orphaned");
    train::Arena scratch, lasting;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    for (long step = 0; step < std::atol(argv[2]); step++) {
        std::printf("step %ld\n", step);
        for (int i = 0; i < 6; i++)
            train::make<train::Tensor>(scratch);
        scratch.reset();
        if (orphans)
            scratch.chunks.clear();
        else
            train::remember(lasting);
        usleep(10000);
    }
    return 0;
}
