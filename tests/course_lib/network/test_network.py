"""Times of collectives against identities, against simulations that move every byte, and against
published measurements.
"""

import sys
from collections import defaultdict
from fractions import Fraction
from math import inf, isclose

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_lib import CourseError, chip, network, ops
from course_lib.network import ALGORITHMS, Link
from course_lib.specs import chips, model
from course_tools import measured
from tests.each import each

COLLECTIVES = {
    "all-gather": network.all_gather,
    "reduce-scatter": network.reduce_scatter,
    "all-reduce": network.all_reduce,
    "all-to-all": network.all_to_all,
    "send": network.send,
}
EVERY = [(name, algorithm) for name, algorithms in ALGORITHMS.items() for algorithm in algorithms]
SIZES = st.floats(1, 1e12)
CHIPS = st.integers(1, 1024)
LINKS = st.builds(Link, st.floats(1e6, 1e12), latency=st.floats(0, 1e-3))


def near(a, b):
    return isclose(a, b, rel_tol=1e-9, abs_tol=1e-300)


# Identities


@given(SIZES, LINKS, CHIPS)
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(size, link, n):
    for algorithm in ("ring", "torus", "tree", "switched"):
        whole = network.all_reduce(size, link, n, algorithm=algorithm)
        halves = [
            one(size, link, n, algorithm=algorithm)
            for one in (network.reduce_scatter, network.all_gather)
        ]
        assert near(whole, sum(halves))


@each(("name", "algorithm"), EVERY)
def test_one_chip_is_free(name, algorithm):
    assert COLLECTIVES[name](1e9, Link(1e9, latency=1e-6), 1, algorithm=algorithm) == 0


@each(("name", "algorithm"), EVERY)
def test_it_broadcasts(name, algorithm):
    sizes, chips = np.array([[0.0], [1e3], [1e9]]), np.array([1, 2, 5, 64])
    table = COLLECTIVES[name](sizes, Link(np.array(1e9), latency=1e-6), chips, algorithm=algorithm)
    assert table.shape == (3, 4)
    one_by_one = [
        [
            COLLECTIVES[name](float(s), Link(1e9, latency=1e-6), int(n), algorithm=algorithm)
            for n in chips
        ]
        for s in sizes[:, 0]
    ]
    assert np.allclose(table, one_by_one, rtol=1e-12)
    assert isinstance(one_by_one[1][1], float)


@given(SIZES, CHIPS)
def test_many_chips(size, n):
    """Without latency a ring's time stays below its limit, and comes to it as n grows."""
    assert network.all_gather(size, 1e9, n) <= size / 1e9
    assert near(network.all_gather(size, 1e9, 10**12), size / 1e9)
    assert near(network.all_reduce(size, 1e9, 10**12), 2 * size / 1e9)
    assert near(network.all_reduce(size, 1e9, 10**12, algorithm="in-switch"), size / 1e9)
    assert near(network.all_reduce(size, 1e9, 10**12, algorithm="torus"), size / 1e9)


@given(SIZES, CHIPS)
def test_the_bus_bandwidth_of_a_ring_is_its_link(size, n):
    for name in ("all-reduce", "all-gather", "reduce-scatter"):
        if n > 1:
            assert near(
                network.bus_bandwidth(size, COLLECTIVES[name](size, 7e9, n), n, collective=name),
                7e9,
            )
    if n > 1:
        direct = network.all_to_all(size, 7e9, n, algorithm="switched")
        assert near(network.bus_bandwidth(size, direct, n, collective="all-to-all"), 7e9)


@given(SIZES, LINKS, st.integers(2, 512))
def test_no_algorithm_beats_what_a_chip_must_receive(size, link, n):
    for name, least in (
        ("all-gather", 1 - 1 / n),
        ("reduce-scatter", 1 - 1 / n),
        ("all-reduce", 1.0),
        ("all-to-all", 1 - 1 / n),
    ):
        for algorithm in ALGORITHMS[name]:
            ways = 2 if algorithm == "torus" else 1
            # Half of an all-reduce's bytes where the switch adds: there each chip still receives
            # the whole array once.
            seconds = COLLECTIVES[name](size, link, n, algorithm=algorithm)
            assert seconds >= (1 - 1e-9) * least * size / (ways * link.total_per_direction)
    hops = {a: network.cost("all-reduce", n, a).hops for a in ALGORITHMS["all-reduce"]}
    assert hops["switched"] <= hops["tree"] <= hops["ring"]
    assert hops["torus"] <= hops["ring"]


@given(SIZES, LINKS, st.integers(2, 64))
def test_a_torus_of_one_axis_and_of_flat_axes(size, link, n):
    for name in ("all-gather", "reduce-scatter", "all-reduce", "all-to-all"):
        one = COLLECTIVES[name](size, link, n, algorithm="torus")
        assert near(one, COLLECTIVES[name](size, link, (n, 1), algorithm="torus"))
        assert near(one, COLLECTIVES[name](size, link, (n,), algorithm="torus"))
    # Both ways round in half of the hops: exactly half of a ring's bandwidth term.
    bytes_only = Link(link.per_direction)
    assert near(
        2 * network.all_gather(size, bytes_only, n, algorithm="torus"),
        network.all_gather(size, bytes_only, n),
    )
    square = network.all_gather(size, bytes_only, (n, n), algorithm="torus")
    assert near(square, (1 - 1 / n**2) * size / (4 * link.per_direction))


def test_links_count():
    nvlink = chip("h100-sxm").links["nvlink"]
    assert network.all_reduce(1e9, nvlink, 8) == network.all_reduce(1e9, 450e9, 8)
    ici = chip("tpu-v5e").links["ici"]
    # A torus uses two links an axis and no more, however many the chip has.
    assert network.all_gather(1e9, ici, 16, algorithm="torus") == network.all_gather(
        1e9, 50e9, 16, algorithm="torus"
    )
    with pytest.raises(
        CourseError, match=r"link must have 2 links a torus axis, 6 in all \(got count=4\)"
    ):
        network.all_gather(1e9, ici, (4, 4, 4), algorithm="torus")
    with pytest.raises(CourseError, match="link must have 2 links a torus axis"):
        network.all_to_all(1e9, ici, (4, 4, 4), algorithm="torus")
    network.all_gather(1e9, chip("tpu-v5p").links["ici"], (4, 4, 4), algorithm="torus")


@given(st.floats(1e6, 1e12), st.floats(1e-9, 1e-3), st.integers(2, 512), st.sampled_from(EVERY))
def test_where_latency_binds(bandwidth, latency, n, case):
    name, algorithm = case
    size = network.latency_bound_size(
        Link(bandwidth, latency=latency), n, collective=name, algorithm=algorithm
    )
    whole = COLLECTIVES[name](size, Link(bandwidth, latency=latency), n, algorithm=algorithm)
    assert near(whole, 2 * COLLECTIVES[name](size, Link(bandwidth), n, algorithm=algorithm))


# Simulations


def ring_all_reduce(n):
    """Chips that hold sets of contributions, step by step: the steps, and the chunks that each link
    carried.
    """
    held = [[{rank} for _ in range(n)] for rank in range(n)]
    steps, carried = 0, 0
    for phase in ("reduce-scatter", "all-gather"):
        for step in range(n - 1):
            offset = 0 if phase == "reduce-scatter" else 1
            sent = [
                ((rank + offset - step) % n, set(held[rank][(rank + offset - step) % n]))
                for rank in range(n)
            ]
            for rank in range(n):
                chunk, content = sent[(rank - 1) % n]
                if phase == "reduce-scatter":
                    assert not held[rank][chunk] & content, "counted twice"
                    held[rank][chunk] |= content
                else:
                    held[rank][chunk] = content
            steps, carried = steps + 1, carried + 1
    assert all(chunk == set(range(n)) for chunks in held for chunk in chunks)
    return steps, Fraction(carried, n)


@each("n", range(1, 13))
def test_a_ring_simulated(n):
    steps, share = ring_all_reduce(n)
    link = Link(3e9, latency=2e-6)
    assert network.all_reduce(6e9, link, n) == pytest.approx(
        steps * 2e-6 + float(share) * 6e9 / 3e9
    )


def flood(n):
    """An all-gather round a ring both ways at once: every link forwards what it got last, the
    farthest shard in halves.
    """
    has = [{rank: Fraction(1)} for rank in range(n)]
    busy = Fraction(0)
    steps = 0
    right, left = (
        [{rank: Fraction(1)} for rank in range(n)],
        [{rank: Fraction(1)} for rank in range(n)],
    )
    while any(sum(shards.values()) < n for shards in has):
        steps += 1
        if n % 2 == 0 and steps == n // 2:
            right, left = (
                [{s: f / 2 for s, f in moving.items()} for moving in way] for way in (right, left)
            )
        load = max(sum(moving.values()) for way in (right, left) for moving in way)
        right = [right[(rank - 1) % n] for rank in range(n)]
        left = [left[(rank + 1) % n] for rank in range(n)]
        for rank in range(n):
            for moving in (right[rank], left[rank]):
                for shard, part in moving.items():
                    has[rank][shard] = has[rank].get(shard, Fraction(0)) + part
        busy += load
    assert all(
        set(shards) == set(range(n)) and set(shards.values()) == {Fraction(1)} for shards in has
    )
    return steps, busy / n


@pytest.mark.parametrize("n", range(2, 13))
def test_a_ring_both_ways_simulated(n):
    steps, share = flood(n)
    cost = network.cost("all-gather", n, "torus")
    assert cost.hops == steps
    assert cost.share / cost.links == pytest.approx(float(share))


def ways(sizes, source, target):
    """Each hop of the shorter way along each axis in turn, with its weight: both ways, by halves,
    where they are as long.
    """
    at = list(source)
    for axis, n in enumerate(sizes):
        distance = (target[axis] - at[axis]) % n
        routes = (
            [(1, distance)]
            if 2 * distance < n
            else [(-1, n - distance)]
            if 2 * distance > n
            else [(1, distance), (-1, distance)]
        )
        for sign, hops in routes:
            place = list(at)
            for _ in range(hops):
                yield (tuple(place), axis, sign), Fraction(1, len(routes))
                place[axis] = (place[axis] + sign) % n
        at[axis] = target[axis]


@pytest.mark.parametrize("sizes", [(2,), (3,), (8,), (7,), (4, 4), (4, 2), (3, 5), (2, 3, 4)])
def test_an_all_to_all_on_a_torus_simulated(sizes):
    places = list(np.ndindex(*sizes))
    load = defaultdict(Fraction)
    for source in places:
        for target in places:
            for hop, weight in ways(sizes, source, target):
                load[hop] += weight
    share = max(load.values()) / len(places)
    cost = network.cost("all-to-all", sizes, "torus")
    assert cost.share / cost.links == pytest.approx(float(share))


@pytest.mark.parametrize("n", range(1, 9))
def test_an_all_to_all_on_a_ring_simulated(n):
    load = [0] * n
    for source in range(n):
        for target in range(n):
            for hop in range((target - source) % n):
                load[(source + hop) % n] += 1
    assert network.cost("all-to-all", n, "ring").share == max(load) / n


def test_recursive_doubling_simulated():
    for n in (2, 4, 8, 16):
        held, rounds, received = [{rank} for rank in range(n)], 0, 0
        while len(held[0]) < n:
            received += len(held[0])
            held = [held[rank] | held[rank ^ 2**rounds] for rank in range(n)]
            rounds += 1
        cost = network.cost("all-gather", n, "tree")
        assert (cost.hops, cost.share) == (rounds, received / n)


# What the chapter needs


def test_two_chips():
    v5e = chip("tpu-v5e")
    peak, classic, link = v5e.peak("bf16"), v5e.classic["link"].si, v5e.links["ici"].per_direction
    assert (peak, classic, link) == (1.97e14, 4.5e10, 5e10)
    assert network.critical_contraction(peak, classic) == 8756  # D > 8755
    assert 4377 < peak / classic < 4378  # D / 2 > 4378
    assert network.critical_contraction(peak, link) == 7880
    B, F = 512, 4096
    for D, bound in ((7878, "communication-bound"), (7880, "compute-bound")):
        step = network.sharded_matmul(
            B, D, F, v5e, link, {"X": 2}, x_axes={"D": "X"}, w_axes={"D": "X"}
        )
        assert step.bound == bound
        assert step.estimate.t_math == pytest.approx(B * D * F / 1.97e14)
        assert step.estimate.t_network == pytest.approx(2 * B * F / 5e10)
        # Each sends the other half of its partial result, added up, and gets the other half back.
        assert step.estimate.t_network == pytest.approx(network.send(2 * B * F, link))


def test_tokens_that_hide_the_gradients():
    h100, v5p = chip("h100-sxm"), chip("tpu-v5p")
    peak = h100.peak("bf16")
    assert network.data_parallel_tokens(peak, h100.links["nvlink"]) == 2199
    # Eight GPUs share eight ports of 400 Gb/s; with one GPU a node, its port is all there is.
    assert (
        network.data_parallel_tokens(peak, network.between_nodes(h100.node, h100.links["nvlink"]))
        == 2474
    )
    assert (
        network.data_parallel_tokens(
            peak, network.between_nodes(h100.node, h100.links["nvlink"], each=1)
        )
        == 19788
    )
    assert (
        network.data_parallel_tokens(v5p.peak("bf16"), v5p.links["ici"], algorithm="torus") == 2295
    )
    assert (
        network.data_parallel_tokens(v5p.peak("bf16"), v5p.classic["link"].si, algorithm="torus")
        == 2550
    )
    assert (
        network.data_parallel_tokens(
            v5p.peak("bf16"), v5p.classic["link"].si, (inf, inf, inf), algorithm="torus"
        )
        == 850
    )


@given(st.integers(2, 64), st.floats(1e9, 1e12), st.integers(1, 10**6))
def test_gradients_by_brute_force(n, bandwidth, weights):
    peak = 1e14
    tokens = network.data_parallel_tokens(peak, bandwidth, n)
    comms = network.all_reduce(2 * weights, bandwidth, n)
    assert 4 * weights * tokens / peak >= comms * (1 - 1e-9)
    assert tokens == 1 or 4 * weights * (tokens - 1) / peak < comms


@given(
    st.integers(2, 16),
    st.sampled_from([1024, 8192]),
    st.integers(128, 65536),
    st.sampled_from([2, 3]),
    st.floats(0, 1e-5),
)
def test_tensor_parallel_tokens_by_brute_force(n, D, F, matrices, latency):
    peak, link = 1e15, Link(4e11, latency=latency)

    def hidden(tokens):
        math = 2 * matrices * tokens * D * F / (n * peak)
        return math >= network.all_reduce(2 * tokens * D, link, n) * (1 - 1e-9)

    tokens = network.tensor_parallel_tokens(D, F, peak, link, n, matrices=matrices)
    wide = network.tensor_parallel_width(peak, link, n, matrices=matrices) <= F
    if tokens == inf:
        assert not hidden(1e9)
        assert not wide or network.tensor_parallel_width(peak, link, n, matrices=matrices) == F
    else:
        assert wide
        assert hidden(tokens * (1 + 1e-9))
        assert tokens == 1 or not hidden((tokens - 1) * (1 - 1e-6))


# Nodes


@pytest.mark.parametrize(
    ("collective", "rack", "nodes"),
    [
        # Of 1 GB: around 72 chips at 900 GB/s; or 7/8 inside each node at 450, and 8/9 of an
        # eighth through each port of 50, twice.
        ("all-reduce", 2 * 71 / 72 / 900, max(2 * 7 / 8 / 450, 2 * 8 / 9 / 8 / 50)),
        ("all-gather", 71 / 72 / 900, max(7 / 8 / 450, 8 / 9 / 8 / 50)),
        # What a chip holds for another node is its own port's to carry: 8/9 of it.
        ("all-to-all", 71 / 72 / 900, 8 / 9 / 50),
    ],
)
def test_a_rack_of_72_beside_nine_nodes_of_eight(collective, rack, nodes):
    work = getattr(network, collective.replace("-", "_"))
    for key, takes in (("gb200", rack), ("gb300", rack), ("h100-sxm", nodes)):
        on = chip(key)
        link = network.resolve_link(on, on.usual_link(72), 72)
        switched = collective == "all-to-all" and not isinstance(link, network.Nodes)
        way = "switched" if switched else None
        assert work(1e9, link, 72, algorithm=way) == pytest.approx(takes)


@each("key", [key for key in chips() if chip(key).node])
def test_more_than_a_node_goes_over_its_ports(key):
    on = chip(key)
    each, first = on.node.chips, next(iter(on.links))
    assert (on.usual_link(1), on.usual_link(each), on.usual_link(2 * each)) == (
        None,
        first,
        "nodes",
    )
    two = network.resolve_link(on, "nodes", 2 * each)
    assert two.total_per_direction == min(
        on.node.ports.total_per_direction, on.links[first].total_per_direction
    )
    with pytest.raises(CourseError, match="pass link='nodes'"):
        network.resolve_link(on, first, 2 * each)


def by_ports(nodes, each):
    """An all-reduce over nodes in three steps, counted: bytes through the busiest port and the
    busiest GPU, over the array's.
    """
    inside = 2 * Fraction(each - 1, each)  # a reduce-scatter inside, and at the end an all-gather
    return 2 * Fraction(nodes - 1, nodes) / each, inside


@each("each", range(1, 9))
@each("nodes", [2, 3, 4, 16, 10**6])
def test_the_ports_of_a_node_share_an_array(nodes, each):
    h100 = chip("h100-sxm")
    nvlink = h100.links["nvlink"].total_per_direction
    link = network.between_nodes(h100.node, h100.links["nvlink"], each)
    assert link.total_per_direction == each * h100.node.ports.per_direction <= nvlink
    ring = network.all_reduce(1e9, link, nodes * each, algorithm="ring")
    takes = network.phases("all-reduce", 1e9, link, nodes * each)
    port, inside = (float(share) * 1e9 for share in by_ports(nodes, each))
    assert takes.across == pytest.approx(port / 50e9, rel=1e-12)
    assert takes.inside == pytest.approx(inside / nvlink, rel=1e-12)
    assert network.all_reduce(1e9, link, nodes * each) == takes.lower == takes.moving
    assert takes.lower <= takes.in_turn <= 2 * takes.lower
    # Adding up inside first sends no more through a port than rings through all of them; over many
    # nodes, as much.
    assert takes.lower <= ring * (1 + 1e-12)
    assert nodes < 10**6 or takes.lower == pytest.approx(ring, rel=1e-5)
    # One port for the whole array would take as many times as long as there are GPUs to share it.
    assert network.all_reduce(1e9, 50e9, nodes * each) == pytest.approx(each * ring)


def travelled(kind, machines, each, size):
    """Bytes through the busiest port and the busiest chip's links inside, by letting every chip
    send every part of an array to where it belongs, level by level.
    """
    chips = [(m, g) for m in range(machines) for g in range(each)]
    part = Fraction(size, len(chips))
    port, inside = dict.fromkeys(chips, 0), dict.fromkeys(chips, 0)
    if kind == "all-to-all":
        for here in chips:
            for there in chips:
                if here != there:
                    (port if here[0] != there[0] else inside)[here] += part
    elif kind == "all-gather":
        # Each first gets its counterparts' parts, then its neighbors' with all that they got.
        for m, g in chips:
            port[m, g] += part * (machines - 1)
            inside[m, g] += part * machines * (each - 1)
    return max(port.values()), max(inside.values())


@pytest.mark.parametrize("kind", ["all-gather", "all-to-all"])
@pytest.mark.parametrize(("machines", "each"), [(1, 8), (2, 1), (2, 8), (3, 4), (16, 8)])
def test_legs_count_what_travels(kind, machines, each):
    h100 = chip("h100-sxm")
    link = network.between_nodes(h100.node, h100.links["nvlink"], each)
    takes = network.phases(kind, 960, link, machines * each)
    port, inside = travelled(kind, machines, each, 960)
    assert takes.across == pytest.approx(float(port) / 50e9)
    assert takes.inside == pytest.approx(float(inside) / 450e9)
    # A reduce-scatter is an all-gather run backwards, and an all-reduce one after the other.
    if kind == "all-gather":
        assert network.phases("reduce-scatter", 960, link, machines * each) == takes
        both = network.phases("all-reduce", 960, link, machines * each)
        assert both.across == pytest.approx(2 * takes.across)
        assert both.inside == pytest.approx(2 * takes.inside)


@pytest.mark.parametrize(("machines", "each"), [(1, 8), (2, 1), (2, 8)])
def test_what_is_sent_stays_in_a_machine_or_crosses(machines, each):
    h100 = chip("h100-sxm")
    link = network.between_nodes(h100.node, h100.links["nvlink"], each)
    takes = network.phases("send", 960, link, machines * each)
    wanted = (0, 960 / 50e9) if machines > 1 else (960 / 450e9, 0)
    assert (takes.inside, takes.across) == pytest.approx(wanted)


def test_hops_inside_and_across_wait_for_one_another():
    h100 = chip("h100-sxm")
    inside = Link(25e9, count=18, latency=1e-6)
    ports = msgspec.structs.replace(h100.node, ports=Link(50e9, count=8, latency=5e-6))
    link = network.between_nodes(ports, inside)
    takes = network.phases("all-reduce", 0, link, 16)
    assert takes.latency == takes.lower == pytest.approx(2 * 7 * 1e-6 + 2 * 1 * 5e-6)
    assert network.phases("send", 0, link, 16).latency > 0
    # In one machine nothing crosses.
    one = network.phases("all-reduce", 1e6, link, 8)
    assert one.across == 0
    assert one.lower == pytest.approx(network.all_reduce(1e6, inside, 8))


def test_machines_broadcast():
    h100 = chip("h100-sxm")
    link = network.between_nodes(h100.node, h100.links["nvlink"], each=np.array([1, 2, 8]))
    sizes = np.array([[1e6], [1e9]])
    times = network.all_reduce(sizes, link, 16)
    assert times.shape == (2, 3)
    for i, size in enumerate(sizes[:, 0]):
        for j, nodes in enumerate((1, 2, 8)):
            alone = network.between_nodes(h100.node, h100.links["nvlink"], each=nodes)
            assert times[i, j] == network.all_reduce(size, alone, 16)


def test_the_fewest_machines_that_hold_the_chips():
    h100 = chip("h100-sxm")
    for n, machines in ((1, 1), (8, 1), (10, 2), (16, 2), (24, 3), (64, 8)):
        link = network.fewest_nodes(h100.node, h100.links["nvlink"], n)
        assert link.each == n / machines
    assert network.fewest_nodes(h100.node, h100.links["nvlink"], 8, least=2).each == 4
    assert list(network.fewest_nodes(h100.node, 450e9, [8, 16, 12]).each) == [8, 8, 6]


def test_the_slower_of_ports_and_links_sets_the_pace():
    h100 = chip("h100-sxm")
    assert network.between_nodes(h100.node, 25e9).total_per_direction == 25e9
    assert (
        network.between_nodes(h100.node, 25e9, each=1).total_per_direction == 50e9
    )  # nothing goes over the links inside
    assert list(
        network.between_nodes(h100.node, 450e9, each=np.array([1, 2, 8])).total_per_direction
    ) == [50e9, 100e9, 400e9]


def least_out_of_a_node(nodes, each, bus):
    """Byte/s that leave a node at least where a bus bandwidth was measured: no algorithm can send
    less of the array.
    """
    return (
        bus
        * network.cost("all-reduce", nodes).share
        / network.cost("all-reduce", nodes * each).share
    )


def test_one_port_a_node_cannot_explain_what_was_measured():
    """More GPUs a node carry more bytes out of it than one GPU, and than the fastest port on its
    own.
    """
    points = by_group()
    found = {
        each: network.fit(*points["a100_dgx", 2 * each, each], 2 * each, resamples=200)
        for each in (1, 4)
    }
    assert found[4].bandwidth / found[1].bandwidth == pytest.approx(3.7, abs=0.05)
    one, four = (least_out_of_a_node(2, each, found[each].bandwidth_low) for each in (1, 4))
    assert four > 1.9 * found[1].bandwidth_high > 1.9 * one
    # Four nodes of eight: more left each than a port of 400 Gb/s carries, whichever algorithm it
    # was.
    unit = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    rows = [row for row in measured.table("collectives_ml_engineering") if row["algbw_GBps"]]
    sizes = np.array([float(row["payload"][:-3]) * unit[row["payload"][-3:]] for row in rows])
    seconds = sizes / np.array([float(row["algbw_GBps"]) * 1e9 for row in rows])
    fast = network.fit(sizes, seconds, 32, resamples=200)
    assert least_out_of_a_node(4, 8, fast.bandwidth_low) > chip("h100-sxm").node.ports.per_direction


def test_behind_one_port_two_phases_need_less_width_than_one_ring():
    """A node adds up inside first, so what crosses its port is one array, not a ring's share."""
    h100 = chip("h100-sxm")
    port, each, peak = h100.node.ports.per_direction, h100.node.chips, h100.peak("bf16")
    crowded = network.Nodes(port, inside=h100.links["nvlink"], port=port / each, each=each)
    width = network.tensor_parallel_width(peak, crowded, n=2 * each, matrices=3)
    # Two nodes: each port carries the array once, 2 bytes an element; 6 F FLOP on 16 chips.
    assert width == np.ceil(2 * each * 2 * peak / (6 * port))
    ring = network.tensor_parallel_width(peak, port, n=2 * each, matrices=3)
    assert ring / width == pytest.approx(15 / 8, rel=1e-4)


def test_tensor_parallelism_over_two_nodes():
    """One port a node would ask for an F of about 160,000; a node's ports together leave room for
    models that exist.
    """
    h100, llama = chip("h100-sxm"), model("llama-3-70b")
    across = network.between_nodes(h100.node, h100.links["nvlink"])
    peak = h100.peak("bf16")
    # Inside, the sums of 14/8 of the array; a port carries an eighth of it, once over and once back.
    assert network.tensor_parallel_width(peak, across, 16) == 30782
    assert network.tensor_parallel_width(peak, across, 16, matrices=3) == 20521 < llama.ffn
    rings = network.tensor_parallel_width(peak, across, 16, matrices=3, algorithm="ring")
    assert rings == 24735
    assert network.tensor_parallel_width(peak, across, 32, matrices=3) > llama.ffn


# Sharded products

H100 = chip("h100-sxm")
MESH = {"X": 4, "Y": 2}
CASES = {
    "neither": ({"B": "X"}, {"F": "Y"}, [], {"B": "X", "F": "Y"}, (1 / 4, 1, 1 / 2)),
    "one in x": ({"D": "X"}, {}, [("all-gather", "x", "X", 1.0)], {}, (1, 1, 1)),
    "one in w": (
        {"B": "X"},
        {"D": "X", "F": "Y"},
        [("all-gather", "w", "X", 0.5)],
        {"B": "X", "F": "Y"},
        (1 / 4, 1, 1 / 2),
    ),
    "both": (
        {"B": "Y", "D": "X"},
        {"D": "X"},
        [("all-reduce", "result", "X", 0.5)],
        {"B": "Y"},
        (1 / 2, 1 / 4, 1),
    ),
    "same-axis": (
        {"B": "X"},
        {"F": "X"},
        [("all-gather", "w", "X", 1.0)],
        {"B": "X"},
        (1 / 4, 1, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    x_axes, w_axes, steps, out, parts = CASES[name]
    B, D, F = 1024, 4096, 8192
    found = network.sharded_matmul(B, D, F, H100, 450e9, MESH, x_axes=x_axes, w_axes=w_axes)
    sizes = {"x": 2 * B * D, "w": 2 * D * F, "result": 2 * B * F}
    assert found.case == name.split()[0]
    assert found.out == out
    assert [(s.collective, s.array, s.axis, s.bytes) for s in found.steps] == [
        (*s[:3], s[3] * sizes[s[1]]) for s in steps
    ]
    local = ops.matmul(*(int(size * part) for size, part in zip((B, D, F), parts, strict=True)))
    assert (found.work.flops, found.work.bytes) == (local.flops, local.bytes)
    for step in found.steps:
        assert step.seconds == COLLECTIVES[step.collective](step.bytes, 450e9, MESH[step.axis])
    assert found.estimate.t_network == sum(s.seconds for s in found.steps)


@pytest.mark.parametrize("name", CASES)
def test_the_blocks_make_the_product(name):
    """Each case carried out on small arrays, chip by chip, with the collectives that it names."""
    x_axes, w_axes, steps, out, _ = CASES[name]
    B, D, F = 8, 4, 8
    rng = np.random.default_rng(0)
    x, w = rng.integers(-9, 9, (B, D)), rng.integers(-9, 9, (D, F))
    gathered = {(s[1], s[2]) for s in steps if s[0] == "all-gather"}

    def block(array, sizes, axes, which, place):
        index = []
        for size, length in zip(sizes, array.shape, strict=True):
            axis = axes.get(size)
            parts = 1 if axis is None or (which, axis) in gathered else MESH[axis]
            at = place[axis] if parts > 1 else 0
            index.append(slice(at * length // parts, (at + 1) * length // parts))
        return array[tuple(index)]

    partial = {}
    for i in range(MESH["X"]):
        for j in range(MESH["Y"]):
            place = {"X": i, "Y": j}
            partial[i, j] = block(x, "BD", x_axes, "x", place) @ block(w, "DF", w_axes, "w", place)
    for step in steps:
        if step[0] == "all-reduce":
            across = 0 if step[2] == "X" else 1
            partial = {
                place: sum(
                    partial[other] for other in partial if other[1 - across] == place[1 - across]
                )
                for place in partial
            }
    for (i, j), result in partial.items():
        assert np.array_equal(result, block(x @ w, "BF", out, "result", {"X": i, "Y": j}))


def test_a_result_may_stay_sharded():
    both = {"x_axes": {"D": "X"}, "w_axes": {"D": "X"}}
    whole = network.sharded_matmul(1024, 4096, 8192, H100, 450e9, MESH, **both)
    scattered = network.sharded_matmul(1024, 4096, 8192, H100, 450e9, MESH, scatter="B", **both)
    assert scattered.steps[0].collective == "reduce-scatter"
    assert scattered.out == {"B": "X"}
    assert 2 * scattered.estimate.t_network == whole.estimate.t_network


def test_which_operand_is_gathered():
    axes = {"x_axes": {"B": "X"}, "w_axes": {"F": "X"}}
    weights = network.sharded_matmul(1024, 4096, 8192, H100, 450e9, MESH, **axes)
    tokens = network.sharded_matmul(1024, 4096, 8192, H100, 450e9, MESH, gather="x", **axes)
    assert (weights.out, tokens.out) == ({"B": "X"}, {"F": "X"})
    sent = [sum(step.bytes for step in one.steps) for one in (weights, tokens)]
    assert sent == [2 * 4096 * 8192, 2 * 1024 * 4096]


def test_sharded_products_broadcast():
    D = np.array([1024, 4096, 65536])
    found = network.sharded_matmul(
        512, D, 4096, H100, 5e10, {"X": 8}, x_axes={"D": "X"}, w_axes={"D": "X"}
    )
    assert found.estimate.lower.shape == (3,)
    assert list(found.bound) == [
        "communication-bound",
        "communication-bound",
        "communication-bound",
    ]
    critical = network.critical_contraction(H100.peak("bf16"), 5e10, 8)
    at = 8 * np.ceil(critical / 8)
    edge = network.sharded_matmul(
        512,
        np.array([at - 8, at]),
        4096,
        H100,
        5e10,
        {"X": 8},
        x_axes={"D": "X"},
        w_axes={"D": "X"},
    ).estimate
    assert list(edge.t_math >= edge.t_network) == [False, True]


# Published measurements


def by_group():
    groups = defaultdict(list)
    for row in measured.table("collectives_a100_allreduce"):
        key = row["node"], int(row["num_workers"]), int(row["devices_per_node"])
        groups[key].append((float(row["size_bytes"]), float(row["ms"]) / 1e3))
    return {key: tuple(np.array(points).T) for key, points in groups.items()}


def test_published_all_reduces(capsys):
    """Two constants for each set of machines, and the median error of the times that they give."""
    errors = {}
    for key, (sizes, seconds) in by_group().items():
        found = network.fit(sizes, seconds, key[1], resamples=200)
        again = network.all_reduce(sizes, found.link, key[1])
        errors[key] = float(np.median(np.abs(again / seconds - 1)))
        assert errors[key] == pytest.approx(found.error)
        assert found.bandwidth_low <= found.bandwidth <= found.bandwidth_high
        assert found.latency_low <= found.latency <= found.latency_high
        assert found.latency > 0
    with capsys.disabled():
        for (node, n, each), error in errors.items():
            sys.stdout.write(f"\n{node}, {n} GPUs, {each} a node: median error {error:.1%}")
    assert max(errors.values()) < 0.25
    assert np.median(list(errors.values())) < 0.1
    # NVLink of an A100 carries 300 GB/s one way: no ring inside one node may come out faster.
    inside = [
        network.fit(*points, key[1], resamples=50).bandwidth
        for key, points in by_group().items()
        if key[1] == key[2]
    ]
    assert max(inside) < chip("a100-sxm-80").links["nvlink"].total_per_direction


def test_published_bus_bandwidths(capsys):
    """The bus bandwidths as printed come out of sizes and algorithm bandwidths; and a fit
    reproduces the times.
    """
    unit = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    rows = [row for row in measured.table("collectives_ml_engineering") if row["algbw_GBps"]]
    sizes = np.array([float(row["payload"][:-3]) * unit[row["payload"][-3:]] for row in rows])
    seconds = sizes / np.array([float(row["algbw_GBps"]) * 1e9 for row in rows])
    printed = np.array([float(row["busbw_GBps"]) * 1e9 for row in rows])
    ours = network.bus_bandwidth(sizes, seconds, 32)  # four nodes of eight
    assert np.allclose(ours, printed, rtol=0.012)
    assert np.allclose(
        ours[5:], printed[5:], rtol=1.5e-3
    )  # the small ones are printed with two digits
    found = network.fit(sizes, seconds, 32)
    error = float(np.median(np.abs(network.all_reduce(sizes, found.link, 32) / seconds - 1)))
    with capsys.disabled():
        constants = f"{found.bandwidth / 1e9:.1f} GB/s, {found.latency * 1e6:.2f} µs"
        sys.stdout.write(f"\n4 nodes of 8 GPUs: median error {error:.1%}, {constants}\n")
    assert error < 0.1


def test_in_switch_reduction_exceeds_a_ring():
    rows = [
        row
        for row in measured.table("collectives_ml_engineering")
        if row["algo"] and row["collective"].startswith("all-reduce")
    ]
    ring = chip("h200-sxm").links["nvlink"].total_per_direction
    assert ring == 450e9
    by_algorithm = defaultdict(list)
    for row in rows:
        if "H200" in row["node"]:
            by_algorithm[row["algo"]].append(
                (int(float(row["n_gpus"])), float(row["busbw_GBps"]) * 1e9)
            )
    assert max(bus for _, bus in by_algorithm["Ring"]) < ring
    best = max(bus for _, bus in by_algorithm["NVLS"])
    assert best == 480e9 > ring
    for n, bus in by_algorithm["NVLS"]:
        # What the switch could reach at most, as a bus bandwidth: above every measured one.
        limit = network.bus_bandwidth(
            1e9, network.all_reduce(1e9, ring, n, algorithm="in-switch"), n
        )
        assert bus < limit == pytest.approx(2 * (1 - 1 / n) * ring)
    # The other two gain nothing from the switch in this model, and were measured as rings.
    assert network.all_gather(1e9, ring, 8, algorithm="in-switch") == network.all_gather(
        1e9, ring, 8
    )


# The fit

SWEEP = 4.0 ** np.arange(5, 16)


@given(
    st.floats(1e-7, 1e-3),
    st.floats(1e8, 1e12),
    st.integers(2, 64),
    st.sampled_from(list(COLLECTIVES)),
)
def test_a_fit_finds_what_made_the_times(latency, bandwidth, n, name):
    sizes = np.concatenate([[1.0, 2.0, 3.0], SWEEP, 1e15 * np.array([1.0, 2.0, 3.0])])
    times = COLLECTIVES[name](sizes, Link(bandwidth, latency=latency), n)
    found = network.fit(sizes, times, n, collective=name, resamples=20)
    assert found.latency == pytest.approx(latency, rel=1e-3)
    assert found.bandwidth == pytest.approx(bandwidth, rel=1e-3)
    assert found.error < 1e-3


def test_outliers_do_not_move_a_fit():
    link = Link(1e10, latency=1e-5)
    times = network.all_reduce(SWEEP, link, 4) * np.random.default_rng(1).normal(
        1, 0.02, SWEEP.size
    )
    times[[2, 8]] *= 20
    found = network.fit(SWEEP, times, 4)
    assert found.latency == pytest.approx(1e-5, rel=0.05)
    assert found.bandwidth == pytest.approx(1e10, rel=0.05)


def test_intervals_cover_the_truth_most_of_the_time():
    link, rng, sizes = Link(1e10, latency=1e-5), np.random.default_rng(2), np.repeat(SWEEP, 4)
    inside = 0
    for _ in range(40):
        found = network.fit(
            sizes,
            network.all_reduce(sizes, link, 4) * rng.lognormal(0, 0.1, sizes.size),
            4,
            resamples=200,
        )
        inside += found.bandwidth_low <= 1e10 <= found.bandwidth_high
    assert inside >= 34


def test_a_fit_of_a_torus_gives_one_link():
    link = Link(5e10, latency=1e-6)
    times = network.all_gather(SWEEP, link, (4, 4), algorithm="torus")
    found = network.fit(
        SWEEP, times, (4, 4), collective="all-gather", algorithm="torus", resamples=20
    )
    assert found.bandwidth == pytest.approx(5e10, rel=1e-3)
    assert found.link.latency == pytest.approx(1e-6, rel=1e-3)


# Messages

BOTH = {"x_axes": {"D": "X"}, "w_axes": {"D": "X"}}


@each(
    ("call", "message"),
    [
        (
            lambda: network.all_reduce(-1, 1e9, 2),
            r"bytes must be zero or more, and finite \(got -1\)",
        ),
        (lambda: network.all_reduce(1, 0, 2), r"link must be positive and finite \(got 0\)"),
        (lambda: network.all_reduce(1, "nvlink", 2), "link must be byte/s"),
        (lambda: network.all_reduce(1, float("nan"), 2), "link must be positive"),
        (lambda: network.all_reduce(1, 1e9, 0), "n must be a positive whole number"),
        (lambda: network.all_reduce(1, 1e9, 2.5), "n must be a positive whole number"),
        (lambda: network.all_reduce(1, 1e9, inf), "n must be a positive whole number"),
        (
            lambda: network.all_reduce(1, 1e9, 2, algorithm="rings"),
            "unknown algorithm 'rings': did you mean 'ring'",
        ),
        (
            lambda: network.all_to_all(1, 1e9, 2, algorithm="tree"),
            "unknown algorithm 'tree'.*of all-to-all",
        ),
        (
            lambda: network.all_gather(1, 1e9, (), algorithm="torus"),
            "n must name at least one axis",
        ),
        (
            lambda: network.all_gather(1, 1e9, (4, 0), algorithm="torus"),
            r"n\[1\] must be a positive whole number",
        ),
        (
            lambda: network.bus_bandwidth(1, 1, 2, collective="gather"),
            "unknown collective 'gather'",
        ),
        (lambda: network.latency_bound_size(1e9, 1), "n must be two or more"),
        (lambda: Link(-1), "per_direction must be positive"),
        (lambda: Link(1, count=1.5), "count must be a positive whole number"),
        (lambda: Link(1, latency=-1), "latency must be zero or more"),
        (
            lambda: network.between_nodes(H100.node, 1e9, each=9),
            r"each must be at most the 8 chips of a machine \(got 9\)",
        ),
        (
            lambda: network.between_nodes(H100.node, 1e9, each=0),
            "each must be a positive whole number",
        ),
        (lambda: network.between_nodes(chip("t4").node, 1e9), "node must be a chip's machine"),
        (
            lambda: network.all_reduce(1, network.between_nodes(H100.node, 1e9), 12),
            r"n must fill machines of 8 chips \(got 12\)",
        ),
        (
            lambda: network.all_reduce(1, network.between_nodes(H100.node, 1e9), (4, 4)),
            r"n=\(4, 4\) is a torus, and machines have none",
        ),
        (
            lambda: network.all_reduce(
                1, network.between_nodes(H100.node, 1e9), 16, algorithm="tree"
            ),
            "unknown algorithm 'tree': choose one of hierarchical, ring",
        ),
        (
            lambda: network.all_reduce(1, 1e9, 16, algorithm="hierarchical"),
            "unknown algorithm 'hierarchical': choose one of in-switch",
        ),
        (lambda: network.fewest_nodes(H100.node, 1e9, 9), "n must spread evenly over machines"),
        (lambda: network.fit([1, 2], [1, 2], 2), "at least|three measurements or more"),
        (lambda: network.fit([5, 5, 5], [1, 2, 3], 2), "two sizes or more"),
        (lambda: network.fit([1, 2, 3], [1, 2, 3], 1), "n must be two or more"),
        (lambda: network.fit([1, 2, 3], [3, 2, 1], 2), "bytes must hold sizes large enough"),
        (lambda: network.fit([1, 2, 3], [3, -2, 1], 2), "seconds must be positive"),
        (
            lambda: network.sharded_matmul(6, 6, 6, H100, 1e9, {"X": 4}, **BOTH),
            r"D must divide by the chips of axis 'X'",
        ),
        (
            lambda: network.sharded_matmul(8, 8, 8, H100, 1e9, {"Y": 4}, **BOTH),
            "unknown axis in x_axes 'X'",
        ),
        (
            lambda: network.sharded_matmul(8, 8, 8, H100, 1e9, {"X": 4}, x_axes={"F": "X"}),
            "unknown size in x_axes 'F'",
        ),
        (
            lambda: network.sharded_matmul(
                8, 8, 8, H100, 1e9, {"X": 4}, x_axes={"B": "X", "D": "X"}
            ),
            "x_axes shards two sizes of one array over one axis",
        ),
        (
            lambda: network.sharded_matmul(
                8, 8, 8, H100, 1e9, MESH, x_axes={"D": "X"}, w_axes={"D": "Y"}
            ),
            "x_axes shards D over 'X' and w_axes over 'Y'",
        ),
        (
            lambda: network.sharded_matmul(8, 8, 8, H100, 1e9, {"X": 4}, scatter="B"),
            "scatter='B' needs D sharded in both",
        ),
        (
            lambda: network.sharded_matmul(8, 8, 8, H100, 1e9, {"X": 4}, gather="y"),
            "unknown gather 'y'",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises(CourseError, match=message):
        call()
