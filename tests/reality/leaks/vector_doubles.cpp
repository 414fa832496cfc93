/* One vector that never stops growing, doubled when it is full. */
#include "pace.h"
#include <vector>

static std::vector<double> losses;

int main(int, char **argv)
{
    while (next_step(argv) >= 0)
        for (int i = 0; i < 25000; i++)
            losses.push_back(i); /* LEAK: 200,000 bytes */
}
