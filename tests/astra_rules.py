"""ASTRA-sim's workload layer in a few lines, written from its rules: refuses what it refuses, hangs where it hangs.

A rank issues the lowest free node ids first, one host node, one device node and one communication at a time.
"""

import json
from collections import defaultdict
from pathlib import Path

from tests.et_messages import attributes as typed
from tests.et_messages import parse

COMM = (5, 6, 7)
SIMULATED = {0, 2, 6, 7}


class Refused(Exception):
    """The simulator ends with an error."""


def load(path: Path):
    """Nodes by id."""
    _, nodes = parse(path.read_bytes())
    if len({entry.id for entry in nodes}) < len(nodes):
        raise Refused("an id occurs twice")
    return {entry.id: entry for entry in nodes}


def attributes(entry):
    """Values of the attributes of a node."""
    return {name: value for name, (_, value) in typed(entry).items()}


class Rank:
    """One rank: what is free to run, what runs, what has run."""

    def __init__(self, number, nodes):
        self.number, self.nodes = number, nodes
        self.waits = {key: set(node.data_deps) | set(node.ctrl_deps) for key, node in nodes.items()}
        for key, waits in self.waits.items():
            if missing := waits - set(nodes):
                raise Refused(f"Node {key}: {min(missing)} not found in index")
        self.children = defaultdict(set)
        for key, waits in self.waits.items():
            for source in waits:
                self.children[source].add(key)
        self.free = {key for key, waits in self.waits.items() if not waits}
        if not self.free:
            raise Refused("No dependency free nodes found")
        self.busy = {}  # slot -> node id
        self.done = 0

    def finish(self, key):
        """End a node; what waited only for it becomes free."""
        self.done += 1
        for slot, running in list(self.busy.items()):
            if running == key:
                del self.busy[slot]
        for child in self.children[key]:
            self.waits[child].discard(key)
            if not self.waits[child]:
                self.free.add(child)


def simulate(prefix: Path, count: int, groups_file: Path | None) -> list[bool]:
    """Which ranks finish; every rule that ends ASTRA-sim with an error raises Refused."""
    groups = json.loads(groups_file.read_text()) if groups_file else {}
    groups = {str(int(name)): members for name, members in groups.items()}
    ranks = [Rank(at, load(Path(f"{prefix}.{at}.et"))) for at in range(count)]
    started = defaultdict(lambda: defaultdict(list))  # group -> rank -> collectives started
    mail = defaultdict(int)
    moved = True
    while moved:
        moved = False
        for rank in ranks:
            moved |= issue(rank, count, groups, started, mail)
        moved |= complete(ranks, count, groups, started)
    return [rank.done == len(rank.nodes) for rank in ranks]


def issue(rank, count, groups, started, mail):
    """Start what is free and has a place; whether anything moved."""
    moved = False
    for key in sorted(rank.free):
        said = checked(rank.nodes[key])
        slot = "comm" if rank.nodes[key].type in COMM else "host" if said["is_cpu_op"] else "device"
        if slot in rank.busy:
            continue
        rank.free.discard(key)
        rank.busy[slot] = key
        moved = True
        if slot != "comm":
            rank.finish(key)
        elif rank.nodes[key].type == 7:
            collective(rank, key, said, count, groups, started)
        elif rank.nodes[key].type == 5:
            send(rank, key, said, count, mail)
    return receive(rank, mail) or moved


def checked(entry):
    """The attributes of a node, if it may run at all."""
    said = attributes(entry)
    if entry.type in (0, 1):
        raise Refused("metadata or invalid node")
    if "is_cpu_op" not in said:
        raise Refused("is_cpu_op missing")
    if entry.type in COMM and said["is_cpu_op"]:
        raise Refused("Comm node should not be on CPU")
    return said


def send(rank, key, said, count, mail):
    """A send needs nobody: it ends when the bytes have arrived."""
    if said["comm_src"] != rank.number or not 0 <= said["comm_dst"] < count:
        raise Refused("Send node should be issued by the sender")
    mail[rank.number, said["comm_dst"], said["comm_tag"], said["comm_size"]] += 1
    rank.finish(key)


def receive(rank, mail):
    """End the receive that a rank waits in, where its bytes are here."""
    key = rank.busy.get("comm")
    if key is None or rank.nodes[key].type != 6:
        return False
    said = attributes(rank.nodes[key])
    if said["comm_dst"] != rank.number:
        raise Refused("Recv node should be issued by the receiver")
    letter = said["comm_src"], rank.number, said["comm_tag"], said["comm_size"]
    if not mail[letter]:
        return False
    mail[letter] -= 1
    rank.finish(key)
    return True


def collective(rank, key, said, count, groups, started):
    """Join a collective, or replay a broadcast."""
    name = said.get("pg_name", "")
    if name not in ("", "0") and str(int(name)) not in groups:
        raise Refused(f"communicator group {name} not found")
    kind, size = said["comm_type"], said["comm_size"]
    if kind == 5:
        rank.finish(key)
        return
    if kind not in SIMULATED:
        raise Refused("Unsupported collective comm type")
    members = range(count) if name in ("", "0") else groups[str(int(name))]
    if size <= 0 or len(members) < 2 or (kind == 2 and size < 64):
        return  # never ends
    if rank.number not in members:
        raise Refused("not a member")
    started["0" if name == "" else name][rank.number].append((kind, size, key))


def complete(ranks, count, groups, started):
    """End the collectives that all members have joined; whether any did."""
    moved = False
    for name, by_rank in started.items():
        members = range(count) if name == "0" else groups[str(int(name))]
        while all(by_rank[member] for member in members):
            heads = [by_rank[member][0] for member in members]
            if len({head[:2] for head in heads}) > 1:
                return moved  # streams that do not fit each other: never ends
            for member in members:
                ranks[member].finish(by_rank[member].pop(0)[2])
            moved = True
    return moved
