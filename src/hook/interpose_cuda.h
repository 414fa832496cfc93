/*
 * interpose_cuda.h - what interpose.c calls in interpose_cuda.c.
 */
#ifndef TIDE_INTERPOSE_CUDA_H
#define TIDE_INTERPOSE_CUDA_H

/* An object was unloaded; it may have been the CUDA driver's library. */
void tide_interpose_cuda_unloaded(void);

#endif
