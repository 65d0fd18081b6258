"""Exercises of the chapter *Energy and cost*: energy, draw, cooling, carbon, and a break-even."""

from course_lib.specs import Accelerator
from course_tools import energy
from course_book.exercises.problem import Solution


def energy_kwh(gpus: int, watts: float, hours: int) -> Solution:
    wrong = {
        "watts-as-energy": gpus * watts,
        "one-alone": watts * hours,
        "joules-as-wh": gpus * watts * hours * 3600,
    }
    return Solution(gpus * watts * hours, wrong, {"together": (gpus * watts, "W")})


def energy_tdp(chip: Accelerator, share: float, rate: int) -> Solution:
    of, limit = energy.constants(chip), float(chip.power)
    drawn = of.idle + share * of.memory
    wrong = {
        "limit-as-draw": limit / rate,
        "no-idle": share * of.memory / rate,
        "idle-scaled-too": share * (of.idle + of.memory) / rate,
    }
    watts = {"waits": of.idle, "adds": of.memory, "limit": limit, "drawn": drawn}
    return Solution(drawn / rate, wrong, {name: (w, "W") for name, w in watts.items()})


def energy_cooling(energy: float, cooling: float, gpus: int) -> Solution:
    wrong = {
        "cooling-twice": energy * cooling / gpus,
        "cooling-forgotten": energy / gpus,
        "building-for-one": energy / cooling,
    }
    return Solution(energy / cooling / gpus, wrong, {"computers": (energy / cooling, "Wh")})


def energy_grid(energy: float, carbon: int, cooling: float) -> Solution:
    kilograms = energy / 1e3 * cooling * carbon / 1e3
    wrong = {
        "grams-as-kilograms": kilograms * 1e3,
        "carbon-divided": energy / 1e3 * cooling / carbon,
        "meter-forgotten": kilograms / cooling,
    }
    return Solution(kilograms, wrong, {"metered": (energy * cooling, "Wh")})


def energy_marginal(energy: float, marginal: int, later: int) -> Solution:
    kwh, carbon, saved = energy / 1e3, 200, marginal - later
    wrong = {
        "average-taken": kwh * (carbon - later) / 1e3,
        "later-forgotten": kwh * marginal / 1e3,
        "mean-of-both": kwh * ((carbon + marginal) / 2 - later) / 1e3,
    }
    return Solution(kwh * saved / 1e3, wrong, {"saved": saved, "carbon": carbon})


def energy_even(rent: float, always: float, works: float) -> Solution:
    gain, capital = rent - works, always - 0.3
    wrong = {
        "energy-forgotten": always / rent,
        "energy-added": always / (rent + works),
        "capital-alone": capital / gain,
    }
    return Solution(always / gain, wrong, {"gain": gain, "capital": capital})
