// leaking.cc - leaks as C++ programs have them, in names that have to be demangled: leaking MODE.
//
// Each keeps 200,000 bytes of every one of 200 steps, which it prints. The tests look for the lines marked with the mode.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace lab {

constexpr std::size_t kBytes = 200000;

struct Tensor {
    float data[kBytes / sizeof(float)];
};

template <typename T> class Buffer {
  public:
    __attribute__((noinline)) void grow()
    {
        rows_.emplace_back(kBytes / sizeof(T)); // vector
    }

  private:
    std::vector<std::vector<T>> rows_;
};

class Cache {
  public:
    __attribute__((noinline)) const std::string &remember(int step)
    {
        return entries_[step] = std::string(kBytes, 'x'); // map
    }

  private:
    std::unordered_map<int, std::string> entries_;
};

static std::vector<Tensor *> kept;
static std::vector<std::shared_ptr<Tensor>> shared;

// Inlined into its caller: a frame of its own in the stack all the same.
static inline __attribute__((always_inline)) Tensor *make()
{
    return new Tensor(); // new
}

__attribute__((noinline)) static void keep()
{
    kept.push_back(make()); // keep
}

__attribute__((noinline)) static void share()
{
    shared.push_back(std::make_shared<Tensor>()); // shared
}

} // namespace lab

int main(int argc, char **argv)
{
    lab::Buffer<float> buffer;
    lab::Cache cache;
    const char *mode = argc > 1 ? argv[1] : "";
    for (int step = 0; step < 200; step++) {
        std::printf("step %d\n", step);
        std::fflush(stdout);
        if (!std::strcmp(mode, "vector"))
            buffer.grow();
        else if (!std::strcmp(mode, "map"))
            cache.remember(step);
        else if (!std::strcmp(mode, "new"))
            lab::keep();
        else if (!std::strcmp(mode, "shared"))
            lab::share();
        else
            return 2;
        std::this_thread::sleep_for(std::chrono::milliseconds(8));
    }
    std::_Exit(0);
}
