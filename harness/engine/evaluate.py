"""Expectations against a view. Pure: used by the judge on stored evidence and by polling on evidence so far."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from harness.engine.vocabulary import kinds
from harness.expect.base import Place
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.scenario import Expectation, Step
from harness.scenario.params import expectation_input
from harness.scenario.variables import Bindings, Unresolved


def evaluate(expectation: Expectation, step: str, bindings: Bindings, view: View) -> list[Finding]:
    """Findings of one expectation; none means it holds. What cannot be evaluated is a finding of severity error."""
    place = Place(expectation=expectation.id, step=step, where=str(expectation.location))
    kind = kinds()[expectation.word]
    lacking = sorted(kind.needs & set(view.item.lacking)) if view.item else []
    if lacking:
        return [untestable(place, f"{lacking[0]}: the target has no such ability, and {expectation.word} rests on it")]
    try:
        args: Any = bindings.render(expectation.args, where=expectation.location)
        params = kind.params.model_validate(expectation_input(args))
    except Unresolved as error:
        return [could_not(place, expectation.word, f"it needs {', '.join(error.names)}, which was never captured")]
    except ValidationError as error:
        return [could_not(place, expectation.word, error.errors(include_url=False, include_input=False)[0]["msg"])]
    return kind.judge(params, place, view)


def could_not(place: Place, word: str, why: str) -> Finding:
    return Finding(
        id=word.replace("_", "-"),
        severity="error",
        message=f"{word} could not be evaluated: {why}",
        where=place.where,
        expectation=place.expectation,
        step=place.step,
        fix="see the step that should have made it",
    )


def untestable(place: Place, why: str) -> Finding:
    """What needs an ability that the target lacks is red, never skipped. `why` begins with the ability's name."""
    return Finding(
        id="untestable",
        severity="error",
        message=why,
        where=place.where,
        expectation=place.expectation,
        step=place.step,
        fix="choose a target that has it, or switch it on at the gateway (docs/targets.md)",
    )


def evaluate_step(step: Step, bindings: Bindings, view: View) -> Iterator[Finding]:
    for expectation in step.expect:
        yield from evaluate(expectation, step.id, bindings, view)
