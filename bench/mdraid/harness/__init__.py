"""mdraid beside Stripewise: the same cases on both, in turns, on one core."""
