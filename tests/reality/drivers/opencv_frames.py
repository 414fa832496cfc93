"""OpenCV: frames of a film, filtered, with their edges and features."""

import cv2
import numpy
import pace

random = numpy.random.default_rng(1)
orb = cv2.ORB_create()
for step in pace.steps():
    frame = cv2.GaussianBlur(random.integers(0, 255, (480, 640, 3), dtype=numpy.uint8), (5, 5), 2)
    grey = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    cv2.Canny(grey, 50, 150)
    orb.detectAndCompute(grey, None)
