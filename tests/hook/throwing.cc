// throwing.cc - exceptions through frames that allocated, containers that grow by doubling, new and delete in every form.
//
// Ends with 0 if every exception arrived. Holds one vector of 4 MiB made by `grow` at the end.

#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::vector<char> *volatile kept;

__attribute__((noinline)) int fail(int depth)
{
    std::vector<int> local(100000, depth);
    if (!depth)
        throw std::runtime_error("as it should");
    return fail(depth - 1) + local[5];
}

__attribute__((noinline)) void grow(std::vector<char> &v)
{
    while (v.size() < 4u << 20)
        v.push_back(1);
}

struct alignas(256) Wide {
    char bytes[300000];
};

static int work(int rounds)
{
    int caught = 0;
    for (int i = 0; i < rounds; i++) {
        try {
            fail(10);
        } catch (const std::exception &) {
            caught++;
        }
        std::unique_ptr<Wide> wide(new Wide);
        std::unique_ptr<int[]> many(new (std::nothrow) int[100000]);
        std::map<int, std::string> names;
        for (int j = 0; j < 200; j++)
            names[j] = std::string(500, 'x');
    }
    return caught;
}

int main()
{
    std::vector<std::thread> threads;
    int caught[4] = {0};
    for (int i = 0; i < 4; i++)
        threads.emplace_back([i, &caught] { caught[i] = work(50); });
    for (auto &t : threads)
        t.join();
    kept = new std::vector<char>;
    grow(*kept);
    return caught[0] + caught[1] + caught[2] + caught[3] == 200 ? 0 : 1;
}
