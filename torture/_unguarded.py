"""The gateway without its claim, for a control: whoever comes to an approval takes it, whatever has become of it since they looked.

`python -m torture._unguarded` is `python -m reference_gateway` in all else.
"""

from __future__ import annotations

import sys
from typing import Any

from reference_gateway.__main__ import main
from reference_gateway.store.sql import SqlStore

guarded = SqlStore.approval_transition


def unguarded(self: SqlStore, approval: str, from_state: str, to_state: str, **changes: Any) -> bool:
    """In place of compare-and-set: the state that there happens to be is taken for the one that was expected."""
    found = self.approval_get(None, approval)
    return found is not None and guarded(self, approval, found["state"], to_state, **changes)


if __name__ == "__main__":
    SqlStore.approval_transition = unguarded  # type: ignore[method-assign]
    sys.exit(main())
