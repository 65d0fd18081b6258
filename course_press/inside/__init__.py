"""What runs in a learner's process, and in the process that starts it: the standard library, NumPy and torch, no other module of ours.

Nothing here judges. What comes out is observations, and `course_press.grading` and its siblings draw the conclusions elsewhere.
"""
