// Templates for a compiler to work on.

#include <iostream>
#include <map>
#include <regex>

int main()
{
    std::map<int, std::regex> expressions;
    expressions[1] = std::regex("a+");
    std::cout << std::regex_match("a", expressions[1]);
}
