/* A TLS context for every connection, none freed. */
#include "pace.h"
#include <openssl/ssl.h>

__attribute__((noinline)) static void connect_once(void)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method()); /* LEAK: a context */
    SSL_new(context);                                    /* LEAK: and a connection */
}

int main(int argc, char **argv)
{
    (void)argc;
    while (next_step(argv) >= 0)
        for (int i = 0; i < 10; i++)
            connect_once();
}
