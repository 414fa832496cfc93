/*
 * sanitizer.h - TIDE_SANITIZED is 1 in a build with AddressSanitizer or ThreadSanitizer, else 0.
 */
#ifndef TIDE_SANITIZER_H
#define TIDE_SANITIZER_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIDE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIDE_SANITIZED 1
#endif
#endif
#ifndef TIDE_SANITIZED
#define TIDE_SANITIZED 0
#endif

#endif
