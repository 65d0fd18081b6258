"""What runs in a learner's process, and in the one that starts it: no other module of this press.

Nothing here judges: what comes out is observations.
"""
