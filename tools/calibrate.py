"""What `make calibrate` runs: fits the constants, prints their errors on what was held out."""

from course_tools.calibrate.report import as_text
from tools.fit_chips import fit_and_write

if __name__ == "__main__":
    for path in fit_and_write():
        print(path)
    print(as_text())
