"""What a comparison costs, in CPU-seconds of this process and its children: `python bench/drift_cost.py [--seed N] [--tools N | --growth]`.

The list is that of the committed inventories (82 tools), repeated under new names for more. The changed list is, by a seeded draw,
60 % unchanged, 20 % cosmetic (order, prose, a definition moved), 15 % breaking (a requirement, a bound or an enum narrowed), 5 %
recursive (a recursive parameter, half of them narrowed). Start-up and imports are not counted; the child process of the watch is.
`--growth` repeats it in a fresh process for up to 10,000 tools and prints what each further thousand takes.
"""

from __future__ import annotations

import argparse
import copy
import os
import random
import re
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from harness.drift.compare import compare
from harness.drift.relater import Relater
from harness.drift.relations import relations_between
from harness.inventory.side import Side, inventory_side, tools_views
from harness.inventory.store import load_inventories
from harness.model.tool import Tool

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ("cognee", "honcho", "mem0", "supermemory", "zep")
SIZES = (2_000, 4_000, 6_000, 8_000, 10_000)
MIX = (("unchanged", 60), ("cosmetic", 20), ("breaking", 15), ("recursive", 5))
Wire = dict[str, Any]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--tools", type=int, default=82)
    options.add_argument("--growth", action="store_true")
    chosen = options.parse_args()
    if chosen.growth:
        _growth(chosen.seed)
        return
    draw = random.Random(chosen.seed)
    old = _listed(chosen.tools)
    kinds = [kind for kind, share in MIX for _ in range(share)]
    new = [_changed(wire, draw.choice(kinds), draw) for wire in old]
    before, after = _side([first for _, first, _ in new]), _side([wire for wire, _, _ in new])
    _say(f"{len(old)} tools, seed {chosen.seed}: {dict(Counter(kind for _, _, kind in new))}")
    with Relater() as relate:
        relate({"type": "object"}, {"type": "object", "maxProperties": 9})  # the child is up
        started = _cpu()
        plain, same = _side(old), _side(copy.deepcopy(old))
        report = compare(plain, same, relations=relations_between(plain, same, relate))
        _say(f"unchanged  {_cpu() - started:7.3f} CPU-s, both lists read and hashed, {len(report.findings)} findings")
    started = _cpu()
    with Relater() as relate:
        report = compare(before, after, relations=relations_between(before, after, relate))
    _say(f"changed    {_cpu() - started:7.3f} CPU-s, the child's start included")
    found = Counter(relation.input.strict for relation in report.relations.values() if relation.input is not None)
    broken = sum(relation.input is not None and relation.input.breaks == "yes" for relation in report.relations.values())
    _say(f"relations {dict(found)}, {broken} with a witness; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


def _growth(seed: int) -> None:
    """Linear growth is the same figure in every row of the last two columns."""
    _say("tools  changed CPU-s  peak MiB  CPU-s a thousand more  MiB a thousand more")
    before: tuple[int, float, int] | None = None
    for size in SIZES:
        words = [sys.executable, __file__, "--seed", str(seed), "--tools", str(size)]
        said = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}).stdout
        cpu = float(re.findall(r"changed +([0-9.]+)", said)[0])
        memory = int(re.findall(r"peak memory (\d+)", said)[0])
        row = f"{size:5}  {cpu:13.1f}  {memory:8}"
        if before is not None:
            step = (size - before[0]) / 1000
            row += f"  {(cpu - before[1]) / step:21.2f}  {(memory - before[2]) / step:19.1f}"
        _say(row)
        before = (size, cpu, memory)


def _cpu() -> float:
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _listed(count: int) -> list[Wire]:
    inventories = load_inventories(ROOT / "inventories")
    wires = []
    for inventory in (inventories[name] for name in PUBLISHED):
        for view in inventory_side(inventory).views:
            schema = (
                dict(view.shape) if view.shape else {"type": "object", "properties": {name: {"type": "string"} for name in view.parameters or ()}}
            )
            wires.append({"name": f"{inventory.provider}.{view.name}", "description": "Does it.", "inputSchema": schema})
    return [{**wires[index % len(wires)], "name": f"{wires[index % len(wires)]['name']}.{index // len(wires)}"} for index in range(count)]


def _side(wires: list[Wire]) -> Side:
    return Side("bench", tools_views([Tool.from_wire(wire) for wire in wires]))


def _changed(wire: Wire, kind: str, draw: random.Random) -> tuple[Wire, Wire, str]:
    """(after, before, kind): a recursive tool has its recursion on both sides."""
    out = copy.deepcopy(wire)
    if kind == "cosmetic":
        _cosmetic(out["inputSchema"], draw)
    elif kind == "breaking":
        _breaking(out["inputSchema"], draw)
    elif kind == "recursive":
        before = copy.deepcopy(wire)
        before["inputSchema"] = _recursive(before["inputSchema"], "Tree", "number")
        out["inputSchema"] = _recursive(out["inputSchema"], "Node", draw.choice(["number", "integer"]))
        return out, before, kind
    return out, wire, kind


def _cosmetic(schema: Wire, draw: random.Random) -> None:
    properties = schema.get("properties", {})
    schema["properties"] = dict(reversed(properties.items()))
    schema["title"] = "Arguments"
    for name in properties:
        if draw.random() < 0.5:
            schema.setdefault("$defs", {})[f"P{name}"] = properties[name]
            schema["properties"][name] = {"$ref": f"#/$defs/P{name}".replace("~", "~0")}


def _breaking(schema: Wire, draw: random.Random) -> None:
    properties = schema.setdefault("properties", {})
    loose = [name for name in properties if name not in schema.get("required", [])]
    if loose and draw.random() < 0.5:
        schema["required"] = [*schema.get("required", []), draw.choice(loose)]
    elif properties:
        name = draw.choice(sorted(properties))
        properties[name] = {
            "allOf": [properties[name], draw.choice([{"maxLength": 1, "maximum": 0, "maxItems": 0}, {"not": {"enum": ["a", 1, True]}}])]
        }
    else:
        schema["required"] = ["workspace"]
        properties["workspace"] = {"type": "string"}


def _recursive(schema: Wire, name: str, leaf: str) -> Wire:
    node = {"type": "object", "properties": {"v": {"type": leaf}, "kids": {"type": "array", "items": {"$ref": f"#/$defs/{name}"}}}, "required": ["v"]}
    return {**schema, "properties": {**schema.get("properties", {}), "tree": {"$ref": f"#/$defs/{name}"}}, "$defs": {name: node}}


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
