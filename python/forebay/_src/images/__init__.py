"""Ops on images, and on the boxes, masks and points that belong to them."""
