"""Fit the constants of training, and print how well each part of the runs predicts the rest."""

from course_tools.train import fitting

if __name__ == "__main__":
    fitting.write()
    print(fitting.as_text(fitting.splits()))
