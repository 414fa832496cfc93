/*
 * interpose_cuda.h - what interpose.c and interpose_cuda.c ask of each other.
 */
#ifndef TIDE_INTERPOSE_CUDA_H
#define TIDE_INTERPOSE_CUDA_H

/* An object was unloaded; it may have been the CUDA driver's library. */
void tide_interpose_cuda_unloaded(void);

#endif
