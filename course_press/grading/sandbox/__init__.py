"""What runs in a learner's process, and in the process that starts it: no other module of this
press.

Nothing here judges. What comes out is observations, and `course_press.grading` draws the
conclusions elsewhere.
"""
