"""What `make calibrate` runs: fits the constants, prints their errors on what was held out."""

from course_lib.calibrate.fit import fit_and_write
from course_lib.calibrate.report import as_text

if __name__ == "__main__":
    for path in fit_and_write():
        print(path)  # noqa: T201
    print(as_text())  # noqa: T201
