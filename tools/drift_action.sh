#!/usr/bin/env bash
# The body of action.yml: the server is asked once, and the one result is drawn in every format that was asked for.
set -uo pipefail

out=${RUNNER_TEMP:-$(mktemp -d)}
outputs=${GITHUB_OUTPUT:-/dev/null}
words=()
for word in ${DRIFT_FAIL_ON:-}; do words+=(--fail-on "$word"); done
for pair in ${DRIFT_HEADER_ENV:-}; do words+=(--header-env "$pair"); done
[ -n "${DRIFT_CONFIG:-}" ] && words+=(--config "$DRIFT_CONFIG")
[ -n "${DRIFT_WAIVERS:-}" ] && words+=(--waivers "$DRIFT_WAIVERS")

if [ -n "${DRIFT_FLEET:-}" ]; then
    harness drift --fleet "$DRIFT_FLEET" -o "$out/drift-fleet" "${words[@]+"${words[@]}"}"
    code=$?
    echo "exit-code=$code" >>"$outputs"
    echo "json=$out/drift-fleet/fleet.json" >>"$outputs"
    exit "$code"
fi

files=(--also "json=$out/drift.json" --also "markdown=$out/drift.md")
[ -n "${DRIFT_SARIF:-}" ] && files+=(--also "sarif=$DRIFT_SARIF")
[ -n "${DRIFT_JUNIT:-}" ] && files+=(--also "junit=$DRIFT_JUNIT")
sides=()
[ -n "${DRIFT_OLD:-}" ] && sides+=("$DRIFT_OLD")
[ -n "${DRIFT_NEW:-}" ] && sides+=("$DRIFT_NEW")
harness drift "${words[@]+"${words[@]}"}" "${files[@]}" "${sides[@]+"${sides[@]}"}"
code=$?
{
    echo "exit-code=$code"
    echo "verdict=$(sed -n 's/^ "verdict": "\([a-z]*\)",$/\1/p' "$out/drift.json" 2>/dev/null)"
    echo "json=$out/drift.json"
    echo "markdown=$out/drift.md"
} >>"$outputs"
[ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$out/drift.md" ] && cat "$out/drift.md" >>"$GITHUB_STEP_SUMMARY"
exit "$code"
