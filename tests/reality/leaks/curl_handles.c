/* A handle for every request, none cleaned up; each has a copy of what it posts. */
#include "pace.h"
#include <curl/curl.h>
#include <string.h>

static char body[150000];

__attribute__((noinline)) static void request(void)
{
    CURL *handle = curl_easy_init();
    curl_easy_setopt(handle, CURLOPT_URL, "http://127.0.0.1:1/");
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, (long)sizeof body);
    curl_easy_setopt(handle, CURLOPT_COPYPOSTFIELDS, body); /* LEAK: 150,000 bytes */
}

int main(int argc, char **argv)
{
    (void)argc;
    memset(body, 'x', sizeof body);
    curl_global_init(CURL_GLOBAL_ALL);
    while (next_step(argv) >= 0)
        request();
}
