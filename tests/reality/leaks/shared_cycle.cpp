/* Two objects own each other by shared_ptr. */
#include "pace.h"
#include <memory>
#include <vector>

struct Child;

struct Parent {
    std::shared_ptr<Child> child;
    std::vector<char> data;
    Parent()
    {
        data.resize(131072, 'x'); /* LEAK: 128 KiB */
    }
};

struct Child {
    std::shared_ptr<Parent> parent;
};

int main(int, char **argv)
{
    while (next_step(argv) >= 0) {
        auto parent = std::make_shared<Parent>();
        parent->child = std::make_shared<Child>();
        parent->child->parent = parent;
    }
}
