/* A cache without a bound: std::unordered_map of strings. */
#include "pace.h"
#include <string>
#include <unordered_map>

static std::unordered_map<int, std::string> cache;

int main(int, char **argv)
{
    for (int step; (step = next_step(argv)) >= 0;)
        for (int i = 0; i < 50; i++)
            cache[50 * step + i] = std::string(4000, 'x'); /* LEAK: 50 strings of 4,000 bytes */
}
